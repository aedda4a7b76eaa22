// Sharing a row of work among workers, each of whom takes a run of it (private to graph).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace harmonics::inline in_graph {

/// Cuts `costs` (all above 0) into weights.size() runs, none empty, so that the largest value of
/// (cost of run i) / weights[i] is as small as any cut can make it. Returns where each run begins.
/// There must be between one weight and as many weights as costs, all above 0.
///
/// Exact, not approximate. With equal weights it takes O(costs) steps per bisection round (some 60
/// rounds), otherwise O(weights * (costs - weights + 1)), and that many bits of memory.
[[nodiscard]] std::vector<std::size_t> balance(std::span<const double> costs,
                                               std::span<const double> weights);

}  // namespace harmonics::inline in_graph
