// The one file that knows libpng.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include <harmonics/base/error.h>

#include "codecs.h"

namespace harmonics::inline in_images {
namespace {

/// Deflate packs at most 1032 bytes into one.
constexpr std::size_t kMostPacked = 1032;
constexpr png_alloc_size_t kMaxPngChunk = png_alloc_size_t{8} << 20;

/// libpng's own errors come back by a jump: between setjmp and its calls stand no objects with
/// destructors, so everything lives here.
class PngReader {
 public:
  PngReader(std::span<const std::byte> file, std::string_view name) : file_(file), name_(name) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &on_error, &on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) fail(ErrorCode::kResourceExhausted, "no memory to read '{}'", name);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Image read() {
    if (!read_header()) broken();
    const auto width = static_cast<std::int64_t>(png_get_image_width(png_, info_));
    const auto height = static_cast<std::int64_t>(png_get_image_height(png_, info_));
    const std::size_t packed = (static_cast<std::size_t>(width) * png_get_bit_depth(png_, info_) *
                                    png_get_channels(png_, info_) / 8 +
                                1) *
                               static_cast<std::size_t>(height);
    image_ = blank_size_checked(width, height, packed);
    rows_.resize(static_cast<std::size_t>(height));
    for (std::int64_t y = 0; y < height; ++y) {
      rows_[static_cast<std::size_t>(y)] = image_.pixels.data() + y * width * 3;
    }
    if (!read_pixels()) broken();
    return std::move(image_);
  }

 private:
  // A tiny file that says it is huge is refused before there is memory for it.
  Image blank_size_checked(std::int64_t width, std::int64_t height, std::size_t packed) const {
    if (width <= kMaxImageSide && height <= kMaxImageSide && packed / kMostPacked > file_.size()) {
      fail(ErrorCode::kDataLoss, "'{}' is cut off: {} bytes cannot hold {} x {} pixels", name_,
           file_.size(), width, height);
    }
    return blank_image(width, height, name_);
  }

  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, &on_read);
    png_set_user_limits(png_, kMaxImageSide, kMaxImageSide);
    png_set_chunk_malloc_max(png_, kMaxPngChunk);
    png_read_info(png_, info_);
    return true;
  }

  bool read_pixels() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_strip_16(png_);
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != static_cast<std::size_t>(image_.width) * 3) {
      png_error(png_, "rows of another size");
    }
    png_read_image(png_, rows_.data());
    png_read_end(png_, nullptr);
    return true;
  }

  [[noreturn]] void broken() const {
    fail(ErrorCode::kDataLoss, "'{}' is a broken PNG file: {}", name_, std::string_view(why_));
  }

  static void on_read(png_structp png, png_bytep out, std::size_t bytes) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (bytes > self.file_.size() - self.at_) png_error(png, "it is cut off");
    std::memcpy(out, self.file_.data() + self.at_, bytes);
    self.at_ += bytes;
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp why) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self.why_, why, sizeof self.why_ - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}

  std::span<const std::byte> file_;
  std::string_view name_;
  std::size_t at_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  Image image_;
  std::vector<png_bytep> rows_;
  char why_[160] = {};
};

}  // namespace

Image decode_png(std::span<const std::byte> file, std::string_view name) {
  return PngReader(file, name).read();
}

}  // namespace harmonics::inline in_images
