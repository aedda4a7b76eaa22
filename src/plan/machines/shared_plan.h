// Plans for hosts that share machines (private to plan).
//
// The stages of a machine can do no more than its cores: the period of a plan is at least the
// seconds of core that a micro-batch takes on a machine, over the machine's cores. A plan that is
// best for hosts of their own is a lower bound; from there the plan is mended: hosts of a machine
// that is too busy are left out, or its layers counted as slow as the sharing makes them.
#pragma once

#include <functional>

#include <harmonics/plan/planner.h>

namespace harmonics::inline in_plan {

/// Plans for a problem whose hosts have their cores for themselves.
using PlanAlone = std::function<PlanOutcome(const PlanProblem&, const PlannerOptions&)>;

/// How often another plan is tried at most.
inline constexpr int kMaxSharedTries = 24;

/// The best plan that was found; its period counts what is shared, and it is `proven` where no plan
/// at all could be better. Throws what `alone` throws for the problem itself.
[[nodiscard]] PlanOutcome plan_shared(const PlanProblem& problem, const PlannerOptions& options,
                                      const PlanAlone& alone);

}  // namespace harmonics::inline in_plan
