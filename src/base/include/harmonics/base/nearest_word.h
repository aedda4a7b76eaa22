// The word that was probably meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace harmonics::inline in_base {

/// Nothing is suggested for what is longer.
inline constexpr std::size_t kLongestNearWord = 64;

/// The word that ends with "_`given`", else the one with the fewest edits (insert, delete, change,
/// swap of neighbours), unless they are over a third of its letters plus one. Ties: the earlier.
[[nodiscard]] std::string nearest_word(const std::string& given,
                                       std::span<const std::string> words);

/// "; did you mean 'x'?" with that word, or "" where there is none.
[[nodiscard]] std::string suggestion(const std::string& given, std::span<const std::string> words);

}  // namespace harmonics::inline in_base
