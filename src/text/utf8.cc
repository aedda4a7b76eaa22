#include "utf8.h"

#include <algorithm>

namespace harmonics::inline in_text {
namespace {

struct Prefix {
  std::size_t bytes;  // of the longest beginning of a character, at least 1
  bool whole;         // it is a character
};

// What `text`, which is not empty, begins with.
Prefix prefix_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const std::size_t wanted = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte tells overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  std::size_t have = 1;
  while (have < wanted && have < text.size()) {
    const unsigned next = byte(have);
    if (next < (have == 1 ? low : 0x80) || next > (have == 1 ? high : 0xBF)) break;
    ++have;
  }
  return {have, have == wanted};
}

}  // namespace

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Prefix prefix = prefix_of(text.substr(at, 4));
    if (!prefix.whole) return at;
    at += prefix.bytes;
  }
  return std::string_view::npos;
}

std::string repaired_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Prefix prefix = prefix_of(bytes);
    out += prefix.whole ? bytes.substr(0, prefix.bytes) : std::string_view("\xEF\xBF\xBD");
    bytes.remove_prefix(prefix.bytes);
  }
  return out;
}

std::size_t point_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace harmonics::inline in_text
