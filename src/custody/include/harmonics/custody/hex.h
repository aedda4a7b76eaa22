// Reading hexadecimal digits.
#pragma once

#include <span>
#include <string_view>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_custody {

/// Fills `out` from exactly two lower-case digits per byte; false when the text is anything else.
[[nodiscard]] inline bool from_hex(std::string_view text, std::span<std::byte> out) {
  if (text.size() != 2 * out.size()) return false;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::byte>(high << 4 | low);
  }
  return true;
}

}  // namespace harmonics::inline in_custody
