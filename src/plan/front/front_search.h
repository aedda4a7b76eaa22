// Plans of least latency, hosts, price or watts among those that keep a period.
#pragma once

#include <harmonics/plan/front.h>

#include "plan_builder.h"
#include "search/weight_search.h"

namespace harmonics::inline in_plan {

/// Keeps references to the problem and the options.
class FrontSearch {
 public:
  /// Finds the fastest plan; throws NoFeasiblePlan where there is none, `Error` for shared
  /// machines.
  FrontSearch(const PlanProblem& problem, const AimOptions& options);

  [[nodiscard]] const PlanOutcome& fastest() const { return fastest_; }
  /// Whether every class of hosts has a price, or watts.
  [[nodiscard]] bool knows(PlanAim aim) const;
  /// The plan of least weight that keeps the period, which must not be below the fastest one's.
  /// Weight: seconds, hosts, price an hour, watts; for `latency` above 0 that many times the
  /// latency comes on top.
  [[nodiscard]] WeightSearchResult least(PlanAim aim, double period_s, double latency = 0);
  /// The period of the plan of least weight whatever its period.
  [[nodiscard]] double slowest_period(PlanAim aim);
  /// The weight of a plan.
  [[nodiscard]] double weight(PlanAim aim, const Placement& placement) const;
  /// Of a whole period: what a weight of 1 adds to the value of a sample in a second.
  [[nodiscard]] double per_sample(PlanAim aim) const;
  [[nodiscard]] const CostModel& costs() const { return costs_; }
  [[nodiscard]] std::uint64_t spent() const { return spent_; }
  /// Throws NoFeasiblePlan: no plan keeps the deadline.
  [[noreturn]] void refuse_deadline();

 private:
  [[nodiscard]] double class_weight(PlanAim aim, std::size_t host_class) const;

  const PlanProblem& problem_;
  const AimOptions& options_;
  CostModel costs_;
  StageGraphBuilder builder_;
  PlanOutcome fastest_;
  std::uint64_t spent_ = 0;
};

}  // namespace harmonics::inline in_plan
