#include "npy_header.h"

#include <array>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/data/npy_producer.h>

namespace harmonics::inline in_data {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// Reads the one dictionary that a header is, as Python spells it.
class NpyDictionary {
 public:
  NpyDictionary(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader read() {
    NpyHeader header;
    int seen = 0;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        header.descr = quoted();
        seen |= 1;
      } else if (key == "fortran_order") {
        header.fortran_order = truth();
        seen |= 2;
      } else if (key == "shape") {
        header.shape = shape();
        seen |= 4;
      } else {
        broken("an entry that is not known");
      }
      if (accept(',')) continue;
      expect('}');
      break;
    }
    if (seen != 7) broken("no descr, fortran_order or shape");
    return header;
  }

 private:
  [[noreturn]] void broken(std::string_view what) const {
    fail(ErrorCode::kInvalidArgument, "'{}' is no NumPy file that can be read: its header has {}",
         path_, what);
  }
  bool accept(char c) {
    while (text_.starts_with(' ') || text_.starts_with('\n')) text_.remove_prefix(1);
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) broken(format("no '{}' where one belongs", c));
  }
  std::string_view quoted() {
    expect('\'');
    const std::size_t end = text_.find('\'');
    if (end == text_.npos) broken("a text that does not end");
    const std::string_view found = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return found;
  }
  bool truth() {
    accept(' ');
    for (const std::string_view word : {"False", "True"}) {
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return word == "True";
    }
    broken("neither True nor False as fortran_order");
  }
  Shape shape() {
    Shape axes;
    expect('(');
    while (!accept(')')) {
      accept(' ');
      const std::size_t digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
      const auto axis = number_from<std::int64_t>(text_.substr(0, digits));
      if (!axis) broken("a shape that is none");
      text_.remove_prefix(digits);
      axes.push_back(*axis);
      if (axes.size() > kMaxNpyAxes) broken(format("more than {} axes", kMaxNpyAxes));
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return axes;
  }

  std::string_view text_;
  const std::string& path_;
};

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

}  // namespace

NpyHeader read_npy_header(const ByteSource& file) {
  std::array<char, 12> start{};
  const std::string_view begin(start.data(), start.size());
  if (file.size() >= start.size()) file.read_at(0, start);
  const int version = start[6];
  if (!begin.starts_with(kNpyMagic) || version < 1 || version > 3) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is no NumPy file of version 1, 2 or 3; write one with numpy.save", file.path());
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::uint64_t length = little_endian(begin.substr(8, length_bytes));
  const std::uint64_t offset = 8 + length_bytes + length;
  if (length > kMaxNpyHeader || offset > file.size()) {
    fail(ErrorCode::kDataLoss, "'{}' is truncated or foreign: it claims a header of {} bytes",
         file.path(), length);
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read_at(8 + length_bytes, text);
  NpyHeader header = NpyDictionary(text, file.path()).read();
  header.data_offset = offset;
  return header;
}

}  // namespace harmonics::inline in_data
