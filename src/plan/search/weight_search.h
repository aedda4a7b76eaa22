// The plan of least additive weight (latency, hosts, bytes to move) that keeps a period.
#pragma once

#include <functional>
#include <limits>

#include <harmonics/plan/placement.h>

#include "stage_graph.h"
#include "work_budget.h"

namespace harmonics::inline in_plan {

/// The weight of one stage; not negative.
using StageWeight =
    std::function<double(const StageGraph& graph, std::size_t from, const StageArc& arc)>;

struct WeightSearchQuestion {
  const StageGraphBuilder& builder;
  StageGraphOptions graph;
  StageWeight weight;
  /// A plan that keeps the period (or will do in place of those that do), and its weight.
  Placement known;
  double known_weight = 0;
  /// Stages that a plan may have; empty: all that keep the period.
  std::function<bool(const StageGraph& graph, std::size_t from, const StageArc& arc)> allows = {};
  /// A second weight, of which a plan has no more than the limit; empty: none.
  StageWeight limited = {};
  double limit = std::numeric_limits<double>::infinity();
};

struct WeightSearchResult {
  Placement placement;
  double weight = 0;
  /// No plan that keeps the period weighs less.
  double bound = 0;
  bool proven = false;
};

/// Never worse than the known plan. A problem too large for a graph of all stages gives back the
/// known plan, unproven.
[[nodiscard]] WeightSearchResult find_least_weight(const WeightSearchQuestion& question,
                                                   WorkBudget& budget);

}  // namespace harmonics::inline in_plan
