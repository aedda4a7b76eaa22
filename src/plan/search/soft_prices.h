// Prices where hosts are of many kinds, each its own or nearly so: the relaxation of host_prices.h,
// solved without a row for every class.
//
// Instead of the one cheapest path all good ones are followed at once, the better the more: each
// arc by how much it costs above the cheapest way. That tells how much of each class the relaxation
// uses; classes that are used more than the average get dearer, the others cheaper, until all are
// used alike. Whatever the prices, the cheapest path under them is a proof or none, so that nothing
// rests on how well this converges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "host_prices.h"

namespace harmonics::inline in_plan {

/// As HostPricing::solve, from these prices on.
[[nodiscard]] Relaxation solve_softly(const StageGraph& graph,
                                      std::span<const std::uint16_t> capacity,
                                      std::vector<double> start, RelaxationDepth depth,
                                      WorkBudget& budget);

}  // namespace harmonics::inline in_plan
