// The alphabet of byte-level tokenizers: every byte is spelled as one visible character.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace harmonics::inline in_text {

/// The character of each byte, as UTF-8.
[[nodiscard]] const std::array<std::string, 256>& byte_characters();

/// The bytes that `spelled` stands for; nothing where a character stands for none.
[[nodiscard]] std::optional<std::string> bytes_spelled(std::string_view spelled);

}  // namespace harmonics::inline in_text
