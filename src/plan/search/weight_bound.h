// Lower bounds on the weight of a path within the hosts that there are, by Lagrangian prices.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "host_prices.h"
#include "stage_graph.h"
#include "work_budget.h"

namespace harmonics::inline in_plan {

struct WeightQuestion {
  const StageGraph& graph;
  std::span<const std::uint16_t> capacity;
  /// Per arc, not negative.
  std::span<const double> weights;
  /// The weight of a path that is known; sets the length of the steps.
  double known_weight = 0;
};

struct WeightBound {
  /// No path within the hosts weighs less.
  double bound = 0;
  /// Prices per host in units of weight; to_go counts the weights of arcs too. The best last.
  std::vector<HostPrices> prices;
  /// The lightest path within the hosts that turned up.
  std::optional<ArcPath> path;
  double path_weight = 0;
};

/// For prices p >= 0 the path that is cheapest when hosts cost p on top of the weights, less what
/// all hosts cost, bounds the weight from below. Climbs to good prices by subgradient steps.
[[nodiscard]] WeightBound bound_weight(const WeightQuestion& question, WorkBudget& budget);

}  // namespace harmonics::inline in_plan
