// The one file that knows libjpeg-turbo.
#include <cstddef>
#include <cstdio>
// Its headers need size_t and FILE before them.
#include <jpeglib.h>
// and the names of its messages come after it.
#include <jerror.h>

#include <csetjmp>

#include <harmonics/base/error.h>

#include "codecs.h"

namespace harmonics::inline in_images {
namespace {

/// As with libpng, errors come back by a jump.
class JpegReader {
 public:
  JpegReader(std::span<const std::byte> file, std::string_view name) : file_(file), name_(name) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = &on_error;
    errors_.emit_message = &on_message;
    progress_.progress_monitor = &on_progress;
    jpeg_.client_data = this;
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  Image read() {
    if (!read_header()) broken();
    const auto width = static_cast<std::int64_t>(jpeg_.image_width);
    image_ = blank_image(width, static_cast<std::int64_t>(jpeg_.image_height), name_);
    inked_ = jpeg_.num_components == 4;
    if (inked_) inks_.resize(static_cast<std::size_t>(width) * 4);
    if (!read_pixels()) broken();
    return std::move(image_);
  }

 private:
  bool read_header() {
    if (setjmp(back_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(file_.data()),
                 static_cast<unsigned long>(file_.size()));
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }

  bool read_pixels() {
    if (setjmp(back_) != 0) return false;
    jpeg_.out_color_space = inked_ ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&jpeg_);
    while (jpeg_.output_scanline < jpeg_.output_height) {
      std::uint8_t* const row =
          image_.pixels.data() + static_cast<std::size_t>(jpeg_.output_scanline) * 3 *
                                     static_cast<std::size_t>(image_.width);
      JSAMPROW to = inked_ ? inks_.data() : row;
      jpeg_read_scanlines(&jpeg_, &to, 1);
      if (inked_) mix_inks(row);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  // Cyan, magenta, yellow and black on white paper; Adobe's programs write them inverted.
  void mix_inks(std::uint8_t* row) const {
    const unsigned flip = jpeg_.saw_Adobe_marker ? 255 : 0;
    for (std::size_t x = 0; x < static_cast<std::size_t>(image_.width); ++x) {
      const std::uint8_t* const ink = inks_.data() + 4 * x;
      const unsigned light = 255 - (ink[3] ^ flip);
      for (std::size_t c = 0; c < 3; ++c) {
        const unsigned product = (ink[c] ^ flip) * light + 128;
        const unsigned taken = ((product >> 8) + product) >> 8;  // product / 255, rounded
        row[3 * x + c] = static_cast<std::uint8_t>(light - taken);
      }
    }
  }

  [[noreturn]] void broken() const {
    fail(ErrorCode::kDataLoss, "'{}' is a broken JPEG file: {}", name_, std::string_view(why_));
  }

  static JpegReader& of(j_common_ptr jpeg) { return *static_cast<JpegReader*>(jpeg->client_data); }
  [[noreturn]] void give_up() { std::longjmp(back_, 1); }
  [[noreturn]] static void on_error(j_common_ptr jpeg) {
    JpegReader& self = of(jpeg);
    jpeg->err->format_message(jpeg, self.why_);
    self.give_up();
  }
  // Of what libjpeg only warns of, the end of the file in the middle of the picture is an error.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    if (jpeg->err->msg_code == JWRN_JPEG_EOF) on_error(jpeg);
  }
  static void on_progress(j_common_ptr jpeg) {
    JpegReader& self = of(jpeg);
    if (self.jpeg_.input_scan_number <= kMaxJpegScans) return;
    std::snprintf(self.why_, sizeof self.why_, "more than %d scans", kMaxJpegScans);
    self.give_up();
  }

  std::span<const std::byte> file_;
  std::string_view name_;
  jpeg_decompress_struct jpeg_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf back_ = {};
  Image image_;
  bool inked_ = false;
  std::vector<std::uint8_t> inks_;
  char why_[JMSG_LENGTH_MAX] = {};
};

}  // namespace

Image decode_jpeg(std::span<const std::byte> file, std::string_view name) {
  return JpegReader(file, name).read();
}

}  // namespace harmonics::inline in_images
