// The stage times that lie in an interval: what the period of a plan can be.
#pragma once

#include <optional>
#include <vector>

#include "stage_graph.h"
#include "work_budget.h"

namespace harmonics::inline in_plan {

/// More candidates than this are not listed.
inline constexpr std::size_t kMaxCandidates = 400'000;

/// All stage times (over all possible numbers of hosts with `replicate`) strictly between the two
/// ends, ascending, equal ones once. Nothing when there are more than kMaxCandidates.
[[nodiscard]] std::optional<std::vector<double>> candidate_periods(const StageGraphBuilder& builder,
                                                                   bool replicate, double above_s,
                                                                   double below_s,
                                                                   WorkBudget& budget);

}  // namespace harmonics::inline in_plan
