#include "shared_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <harmonics/plan/machine_load.h>

namespace harmonics::inline in_plan {
namespace {

// Values that differ by a smaller share are the same but for rounding.
constexpr double kSameShared = 1e-9;
// How often layers are counted slower before hosts are left out.
constexpr int kSlowerTries = 6;

class SharedPlanner {
 public:
  SharedPlanner(const PlanProblem& problem, const PlannerOptions& options, const PlanAlone& alone)
      : problem_(problem), options_(options), alone_(alone), costs_(problem, options.costs) {}

  PlanOutcome run() {
    best_ = judged(alone_(own_hosts(problem_), options_));
    for (int i = 0; i < kSlowerTries && is_too_busy(best_); ++i) {
      if (!try_slower()) break;
    }
    while (is_too_busy(best_) && try_fewer()) continue;
    const double value = best_.objective_s(options_.goal);
    best_.lower_bound_s = bound_s_;
    best_.least_s = value;
    best_.proven = value <= bound_s_ * (1 + kSameShared);
    best_.least_proven = best_.proven;
    best_.preference_proven = best_.preference_proven && tries_ == 0;
    return std::move(best_);
  }

 private:
  static PlanProblem own_hosts(PlanProblem problem) {
    problem.machines.clear();
    return problem;
  }

  // With what the machines make of it.
  PlanOutcome judged(PlanOutcome outcome) {
    if (bound_s_ < 0) {
      bound_s_ = outcome.lower_bound_s;
      proof_ = outcome.proof;
      layer_proof_ = outcome.layer_proof;
    }
    outcome.proof = proof_;
    outcome.layer_proof = layer_proof_;
    outcome.period_s = shared_period_of(problem_, costs_, outcome.placement);
    outcome.latency_s = latency_of(costs_, outcome.placement);
    return outcome;
  }

  bool is_too_busy(const PlanOutcome& outcome) const {
    return options_.goal == PlanGoal::kThroughput && tries_ < kMaxSharedTries &&
           outcome.period_s > period_of(costs_, outcome.placement) * (1 + kSameShared);
  }

  // Whether a plan for `changed` is better for the problem as it is.
  bool try_plan(const PlanProblem& changed) {
    ++tries_;
    std::optional<PlanOutcome> found;
    try {
      found = judged(alone_(own_hosts(changed), options_));
    } catch (const NoFeasiblePlan&) {
      return false;
    }
    found->work += best_.work;
    if (found->period_s >= best_.period_s * (1 - kSameShared)) return false;
    best_ = std::move(*found);
    return true;
  }

  // Layers take as long as they do while the machine's stages share its cores.
  bool try_slower() {
    PlanProblem changed = problem_;
    const std::vector<double> loads = machine_loads_s(problem_, costs_, best_.placement);
    const double own = period_of(costs_, best_.placement);
    for (std::size_t m = 0; m < loads.size(); ++m) {
      const double factor = std::max(1.0, own > 0 ? loads[m] / own : 1.0);
      for (const std::size_t u : problem_.machines[m].classes) {
        for (double& time : changed.classes[u].layer_time_s) time *= factor;
      }
    }
    return try_plan(changed);
  }

  // Without one of the hosts of the busiest machine, whichever helps.
  bool try_fewer() {
    const std::vector<double> loads = machine_loads_s(problem_, costs_, best_.placement);
    const auto busiest = static_cast<std::size_t>(std::ranges::max_element(loads) - loads.begin());
    bool helped = false;
    const std::vector<std::size_t> left_out = left_out_;
    for (const std::size_t u : problem_.machines[busiest].classes) {
      if (tries_ >= kMaxSharedTries) break;
      if (std::ranges::find(left_out, u) != left_out.end()) continue;
      std::vector<std::size_t> without = left_out;
      without.push_back(u);
      PlanProblem changed = problem_;
      for (const std::size_t one : without) {
        changed.classes[one].barred.assign(problem_.layers(), true);
      }
      if (!try_plan(changed)) continue;
      left_out_ = std::move(without);
      helped = true;
    }
    return helped;
  }

  const PlanProblem& problem_;
  const PlannerOptions& options_;
  const PlanAlone& alone_;
  const CostModel costs_;
  PlanOutcome best_;
  double bound_s_ = -1;  // of the plan for hosts of their own
  std::optional<PeriodProof> proof_;
  std::optional<LayerProof> layer_proof_;
  std::vector<std::size_t> left_out_;
  int tries_ = 0;
};

}  // namespace

PlanOutcome plan_shared(const PlanProblem& problem, const PlannerOptions& options,
                        const PlanAlone& alone) {
  return SharedPlanner(problem, options, alone).run();
}

}  // namespace harmonics::inline in_plan
