// The planner: the best placement of a model's layers, with a proof of how good it is.
//
// Deterministic: the same problem and options give the same plan on every machine, since the search
// is limited in steps of work and not in time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/plan/cost_model.h>
#include <harmonics/plan/placement.h>
#include <harmonics/plan/problem.h>

namespace harmonics::inline in_plan {

/// There is no plan; the message says which limit is to blame.
class NoFeasiblePlan : public Error {
 public:
  explicit NoFeasiblePlan(const std::string& message)
      : Error(ErrorCode::kFailedPrecondition, message) {}
};

enum class PlanGoal {
  /// The shortest period: most micro-batches per second.
  kThroughput,
  /// The shortest way of one micro-batch through all stages.
  kLatency,
};

/// What decides between plans that reach the goal equally well.
enum class PlanPreference { kNone, kLatency, kFewestHosts };

/// Steps of work for a problem without and with replication: below one and three seconds on a core
/// of 2023.
inline constexpr std::uint64_t kDefaultPlanWork = 130'000'000;
inline constexpr std::uint64_t kDefaultReplicatedPlanWork = 620'000'000;
/// The same where hosts are of more than two dozen kinds, and of more than forty: below three
/// seconds.
inline constexpr std::uint64_t kDefaultManyKindsPlanWork = 500'000'000;
inline constexpr std::uint64_t kDefaultVeryManyKindsPlanWork = 720'000'000;

struct PlannerOptions {
  CostOptions costs;
  PlanGoal goal = PlanGoal::kThroughput;
  PlanPreference preference = PlanPreference::kLatency;
  /// For the preference the period may grow by this share.
  double tolerance = 0;
  /// Stages may run on several hosts of one class, which take turns.
  bool replicate = false;
  /// Steps of work; 0 for the default. A sixteenth more goes into the preference.
  std::uint64_t work = 0;
};

/// Proof that no plan has a period of `period_s` or less: give every host of class u the price
/// price[u]; all hosts that a plan can use (without replication no more of a class than there are
/// layers) together cost 1, but every way to place the layers with that period costs more. Whoever
/// doubts it computes the cheapest placement.
///
/// With replicated stages there may be prices on shares besides. Cut the hosts of a class into
/// parts + 1 equal shares: a stage on h of `hosts` hosts takes more than floor(((parts + 1) h - 1)
/// / hosts) of them and pays that number times the price. All of a plan's stages count at most
/// `parts`, so what there is costs 1 with parts times the price of each rule in it.
struct SharePrice {
  std::size_t host_class = 0;
  std::size_t parts = 1;
  double price = 0;
};
struct PeriodProof {
  double period_s = 0;
  std::vector<double> price;
  std::vector<SharePrice> shares = {};
};

/// Proof that no plan has a period of `period_s` or less, by prices on layers: a stage earns the
/// prices of its layers, all layers together are worth 1. Whatever stages of that period the hosts
/// of one class hold at once (none has a layer in common with another), they earn no more than the
/// best set of them does; but what all classes earn at best is less than 1. Whoever doubts it
/// computes the best set for each class.
struct LayerProof {
  double period_s = 0;
  std::vector<double> price;  // per layer, of any sign
};

struct PlanOutcome {
  Placement placement;
  double period_s = 0;
  double latency_s = 0;
  std::size_t hosts = 0;
  /// No plan reaches a smaller value of the goal (seconds).
  double lower_bound_s = 0;
  /// The goal's value is the least one, shown by the relaxation and an exhaustive search.
  bool proven = false;
  /// The least value of the goal that was found. The plan's own is larger where a tolerance let the
  /// preference choose a slower plan; then `least_proven` says whether this is the least one of
  /// all, and `proven` is false.
  double least_s = 0;
  bool least_proven = false;
  std::optional<PeriodProof> proof;
  /// Another one, of a longer period, where prices on layers show more.
  std::optional<LayerProof> layer_proof;
  /// Among plans that reach the goal as well, the preference's value is the least one.
  bool preference_proven = false;
  /// Steps of work done.
  std::uint64_t work = 0;

  /// The value of the goal.
  [[nodiscard]] double objective_s(PlanGoal goal) const {
    return goal == PlanGoal::kLatency ? latency_s : period_s;
  }
};

/// Plans. With `replicate` the plan is never worse than without. Throws NoFeasiblePlan when there
/// is no plan or none was found, `Error` for a problem that is not in order. A model without layers
/// has an empty plan.
[[nodiscard]] PlanOutcome make_plan(const PlanProblem& problem, const PlannerOptions& options);

}  // namespace harmonics::inline in_plan
