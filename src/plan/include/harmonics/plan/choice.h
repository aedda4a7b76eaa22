// Which batch size and dtype to plan with, of those that were measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/plan/planner.h>
#include <harmonics/plan/request.h>

namespace harmonics::inline in_plan {

/// What is left to the planner; the rest is as the request says.
struct ProfileFreedom {
  bool batch_size = false;
  bool dtype = false;
};

/// One profile that was tried.
struct TriedProfile {
  ProfileKey key;
  bool feasible = false;
  double seconds_per_sample = 0;  ///< 0: what was measured takes no time.
  double latency_s = 0;
};

struct ProfilePlan {
  ProfileKey key;
  PlanProblem problem;
  PlanOutcome outcome;
  std::vector<TriedProfile> tried;
};

/// Plans for every profile that the freedom allows and takes the one with the most samples per
/// second (or the least latency, by the goal); of equals the smaller batch. Throws NoFeasiblePlan
/// when none has a plan.
[[nodiscard]] ProfilePlan plan_best_profile(const PlanInputs& inputs, const PlanRequest& request,
                                            const PlannerOptions& options,
                                            const ProfileFreedom& freedom);

/// One host that runs the whole model.
struct AloneHost {
  std::string host;
  std::string type;
  std::int64_t batch_size = 0;
  double samples_per_s = 0;
};

/// The host that computes most samples a second by itself, over all batch sizes that were measured
/// for the request's model and dtype: what a pipeline of smaller micro-batches must beat. Nothing
/// where no host has the memory of all layers.
[[nodiscard]] std::optional<AloneHost> fastest_alone(const PlanInputs& inputs,
                                                     const PlanRequest& request);

}  // namespace harmonics::inline in_plan
