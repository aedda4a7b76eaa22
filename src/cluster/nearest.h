// The word that was probably meant.
#pragma once

#include <span>
#include <string_view>

namespace harmonics {

/// The word with the fewest edits (insert, delete, change, swap of neighbours) from `given`; empty
/// when even that one differs in more than a third of its letters plus one. Ties: the earlier.
[[nodiscard]] std::string_view nearest_word(std::string_view given,
                                            std::span<const std::string_view> words);

}  // namespace harmonics
