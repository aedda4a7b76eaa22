// Other aims than speed: what a sample costs and draws, a deadline, and the plans between which one
// has to choose.
//
// A plan uses its hosts all the time, so that a sample costs the prices of all its hosts for one
// period, over the samples of a micro-batch; the same with watts. Both are the period times a sum
// over hosts: for a given period the least sum is found exactly, and between two periods a < b no
// plan costs less than a times the least sum at b. Halving the interval with the least such bound
// closes the gap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>

namespace harmonics::inline in_plan {

enum class PlanAim { kPeriod, kLatency, kHosts, kCost, kEnergy };
/// "period", "latency", "hosts", "cost", "energy".
[[nodiscard]] std::string plan_aim_name(PlanAim aim);

struct AimOptions {
  CostOptions costs = {};
  bool replicate = false;
  /// Seconds that a micro-batch may take from end to end.
  double deadline_s = std::numeric_limits<double>::infinity();
  /// Steps of work; 0 for the default.
  std::uint64_t work = 0;
};

/// A plan with all its figures.
struct AimedPlan {
  Placement placement;
  double period_s = 0;
  double latency_s = 0;
  std::size_t hosts = 0;
  /// In the currency of the files; 0 where no price is known.
  double cost_per_sample = 0;
  double joules_per_sample = 0;
  /// What keeps it from being faster: "compute of layers 1-15 on desk".
  std::string binds;

  [[nodiscard]] double value(PlanAim aim) const;
};
[[nodiscard]] AimedPlan aimed_plan(const PlanProblem& problem, const CostOptions& costs,
                                   Placement placement);

struct AimOutcome {
  AimedPlan plan;
  PlanAim aim = PlanAim::kCost;
  /// No plan that keeps the deadline has a smaller value.
  double lower_bound = 0;
  bool proven = false;
  /// The shortest period of all plans and what is known of it.
  PlanOutcome fastest;
};

/// The same for a report: the period and what is known of the shortest one (for the aim of latency,
/// the latency).
[[nodiscard]] PlanOutcome outcome_of(const AimOutcome& outcome);

/// The plan with the least value of the aim that keeps the deadline. Throws NoFeasiblePlan where no
/// plan keeps it (and says how quick the quickest is), `Error` where prices or watts are missing
/// and for shared machines.
[[nodiscard]] AimOutcome plan_for_aim(const PlanProblem& problem, PlanAim aim,
                                      const AimOptions& options);

/// Plans of which none is better in one figure without being worse in another.
struct PlanFront {
  /// By period. At most kMaxFrontPlans.
  std::vector<AimedPlan> plans;
  /// Aims that were looked at: cost and energy only where prices and watts are known.
  std::vector<PlanAim> aims;
  /// The shortest period that any plan can have, and whether the first plan has it.
  double least_period_s = 0;
  bool least_proven = false;
};
inline constexpr std::size_t kMaxFrontPlans = 60;

[[nodiscard]] PlanFront plan_front(const PlanProblem& problem, const AimOptions& options);

/// A table for people, and the same for programs with each plan's stages.
[[nodiscard]] std::string front_to_text(const PlanProblem& problem, const PlanFront& front);
[[nodiscard]] Json front_to_json(const PlanProblem& problem, const PlanFront& front);
/// Period to the right; upwards cost, or energy, or latency, whatever is known first. An SVG
/// document with a legend, round ticks and what binds each plan.
[[nodiscard]] std::string front_to_svg(const PlanProblem& problem, const PlanFront& front);
/// What a sample costs and draws and how good that is, in a few lines.
[[nodiscard]] std::string aim_to_text(const AimOutcome& outcome, double deadline_s);
[[nodiscard]] Json aim_to_json(const AimOutcome& outcome, double deadline_s);

}  // namespace harmonics::inline in_plan
