// UTF-8, one code point at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace harmonics::inline in_text {

/// Where the first byte stands that is not part of valid UTF-8; npos in valid text.
[[nodiscard]] std::size_t first_invalid_utf8(std::string_view text);

/// The bytes as valid UTF-8: U+FFFD for every longest beginning of a character that breaks off, and
/// for every byte that begins none.
[[nodiscard]] std::string repaired_utf8(std::string_view bytes);

/// How many code points valid UTF-8 holds.
[[nodiscard]] std::size_t point_count(std::string_view text);

/// Bytes of the character that begins with `first`, in valid UTF-8.
[[nodiscard]] constexpr std::size_t point_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The code point at `at` of valid UTF-8, and `at` moved behind it.
[[nodiscard]] inline char32_t next_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t first = byte(0);
  if (first < 0x80) {
    at += 1;
    return first;
  }
  char32_t point = 0;
  if (first < 0xE0) {
    point = (first & 0x1F) << 6 | (byte(1) & 0x3FU);
    at += 2;
  } else if (first < 0xF0) {
    point = (first & 0x0F) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
    at += 3;
  } else {
    point =
        (first & 0x07) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU);
    at += 4;
  }
  return point;
}

/// The code point that ends before `at` > 0.
[[nodiscard]] inline char32_t point_before(std::string_view text, std::size_t at) {
  do {
    --at;
  } while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return next_point(text, at);
}

inline void append_point(std::string& out, char32_t point) {
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xC0 | point >> 6);
    out += static_cast<char>(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    out += static_cast<char>(0xE0 | point >> 12);
    out += static_cast<char>(0x80 | (point >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (point & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | point >> 18);
    out += static_cast<char>(0x80 | (point >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (point >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (point & 0x3F));
  }
}

}  // namespace harmonics::inline in_text
