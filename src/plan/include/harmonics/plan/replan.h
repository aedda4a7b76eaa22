// Plans that know an earlier plan: what to do when a host is lost, and whether to move at all.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>

namespace harmonics::inline in_plan {

/// Like name_hosts, but gives stages to hosts that hold most of their layers (by memory) already.
[[nodiscard]] Plan name_hosts_near(const PlanProblem& problem,
                                   std::span<const PlacedStage> placement, const Plan& before);

/// The plan for the loss of one host of a device type.
struct FallbackPlan {
  std::string type;
  /// The host that is taken to be lost: the last one of this type that the plan uses, or has.
  std::string lost_host;
  /// Empty: without that host there is no plan, for this reason.
  std::optional<Plan> plan;
  std::string reason;
  double period_s = 0;
  bool proven = false;
  /// Megabytes of layers that must be moved to hosts which had other ones.
  double moved_mb = 0;
};
/// One per device type that has hosts, in the order of the problem.
[[nodiscard]] std::vector<FallbackPlan> plan_fallbacks(const PlanProblem& problem,
                                                       const PlannerOptions& options,
                                                       const Plan& plan);

struct MigrationCost {
  /// Seconds that it takes to move a megabyte of layers to another host.
  double seconds_per_mb = 0.01;
  /// Micro-batches that the new plan will be used for.
  double horizon_batches = 10'000;
};

struct ReplanOutcome {
  Plan plan;
  PlanOutcome outcome;
  double moved_mb = 0;
  double migration_s = 0;
  /// horizon_batches * period + migration: what was made small.
  double total_s = 0;
  /// The current plan stays: moving would not pay.
  bool stays = false;
};

/// The plan that does the coming micro-batches soonest, counting the time to move layers. Weighs
/// periods from the best one up to the current plan's against the megabytes that each needs; the
/// total is the least among those, not proven to be the least of all. The current plan may be one
/// that is no longer possible (a host is gone, memory shrank); then it only tells what lies where.
[[nodiscard]] ReplanOutcome replan(const PlanProblem& problem, const PlannerOptions& options,
                                   const Plan& current, const MigrationCost& cost);

}  // namespace harmonics::inline in_plan
