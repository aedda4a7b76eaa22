// The graph builder for a problem as the planner uses it.
#pragma once

#include <harmonics/plan/problem.h>

#include "stage_graph.h"

namespace harmonics::inline in_plan {

/// A builder over `costs`, to which it keeps a reference, with the hosts of the problem. Without
/// replication no more hosts of a class count than there are layers; outside a fixed order none.
[[nodiscard]] StageGraphBuilder builder_for(const PlanProblem& problem, const CostModel& costs,
                                            bool replicate);

}  // namespace harmonics::inline in_plan
