// Better plans by small changes: what a search over graphs leaves on the table where hosts are
// many.
//
// Layers are few and hosts come in whole numbers, so that good plans are those whose stages happen
// to fill every kind of host. A search that goes through the layers once meets few of them; changes
// of a whole plan meet many. Whatever comes out is a plan, so that nothing rests on how well this
// works.
#pragma once

#include <span>

#include <harmonics/plan/placement.h>

#include "stage_graph.h"
#include "work_budget.h"

namespace harmonics::inline in_plan {

struct AnnealingQuestion {
  const StageGraphBuilder& builder;
  bool replicate = false;
  /// A plan; what comes back is never worse.
  const Placement& known;
  /// Nothing below this is looked for.
  double lower_bound_s = 0;
  /// What a host of each class is worth; empty: all the same.
  std::span<const double> price = {};
  /// Steps of the budget that it may take.
  std::uint64_t work = 0;
};

/// Changes the plan at random, backward steps less and less often (simulated annealing,
/// Kirkpatrick, Gelatt and Vecchi 1983), with the aim of a period a little below the best so far.
/// Deterministic. For hosts in any order.
[[nodiscard]] Placement anneal(const AnnealingQuestion& question, WorkBudget& budget);

}  // namespace harmonics::inline in_plan
