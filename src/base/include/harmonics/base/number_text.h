// Numbers out of text, as std::from_chars reads them: no blanks and no '+' before them, no locale.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace harmonics::inline in_base {

/// The number that all of `text` spells; nothing where it spells none, or one that T cannot hold.
template <typename T>
[[nodiscard]] std::optional<T> number_from(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

/// The number at the start of `text`, whatever follows it; nothing as above.
template <typename T>
[[nodiscard]] std::optional<T> leading_number(std::string_view text) {
  T value{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace harmonics::inline in_base
