// The assignment of slots to hosts that keeps the most.
#pragma once

#include <cstddef>
#include <vector>

namespace harmonics::inline in_plan {

/// Up to this many slots the assignment is the best one; beyond, a greedy one.
inline constexpr std::size_t kMaxExactSlots = 256;

/// `worth[slot][host]`, not negative, at least as many hosts as slots. Gives a different host to
/// each slot, making the sum large. Deterministic.
[[nodiscard]] std::vector<std::size_t> match_hosts(const std::vector<std::vector<double>>& worth);

}  // namespace harmonics::inline in_plan
