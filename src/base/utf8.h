// Characters of UTF-8 (private to base).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace harmonics::inline in_base {

struct Utf8Character {
  std::size_t bytes = 0;  ///< 0: the text does not begin with a valid character.
  std::uint32_t code = 0;
};

/// The first character of `text`, which is not empty.
[[nodiscard]] Utf8Character first_utf8(std::string_view text);

}  // namespace harmonics::inline in_base
