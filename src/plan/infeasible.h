// Says why a problem has no plan.
#pragma once

#include <string>

#include <harmonics/plan/planner.h>

namespace harmonics::inline in_plan {

/// A sentence that names the limit to blame, with numbers. `proven`: there is no plan; otherwise
/// none was found.
[[nodiscard]] std::string explain_infeasible(const PlanProblem& problem,
                                             const PlannerOptions& options, bool proven);

}  // namespace harmonics::inline in_plan
