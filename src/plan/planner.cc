#include <harmonics/plan/planner.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "infeasible.h"
#include "period_search.h"
#include "plan_builder.h"
#include "weight_search.h"

namespace harmonics {
namespace {

// Of the work, one part more is for the preference; for the latency goal, one part is for a first
// plan.
constexpr std::uint64_t kPreferenceShare = 16;
constexpr std::uint64_t kFirstPlanShare = 4;

// Plans one problem; see make_plan.
class Planner {
 public:
  Planner(const PlanProblem& problem, const PlannerOptions& options)
      : problem_(problem),
        options_(options),
        costs_(problem, options.costs),
        builder_(builder_for(problem, costs_, options.replicate)),
        budget_(work_of(options)),
        preference_budget_(work_of(options) / kPreferenceShare) {}

  PlanOutcome run() {
    if (options_.goal == PlanGoal::kLatency) {
      find_least_latency();
    } else {
      find_least_period_plan();
    }
    outcome_.period_s = period_of(costs_, outcome_.placement);
    outcome_.latency_s = latency_of(costs_, outcome_.placement);
    for (const PlacedStage& stage : outcome_.placement) outcome_.hosts += stage.hosts;
    outcome_.work = budget_.spent() + preference_budget_.spent();
    return std::move(outcome_);
  }

 private:
  static std::uint64_t work_of(const PlannerOptions& options) {
    if (options.work > 0) return options.work;
    return options.replicate ? kDefaultReplicatedPlanWork : kDefaultPlanWork;
  }

  PeriodResult search_period(WorkBudget& budget) {
    PeriodResult found = find_least_period({builder_, options_.replicate}, budget);
    if (found.placement.empty()) {
      throw NoFeasiblePlan(explain_infeasible(problem_, options_, found.proven));
    }
    return found;
  }

  void find_least_period_plan() {
    PeriodResult found = search_period(budget_);
    outcome_.placement = std::move(found.placement);
    outcome_.lower_bound_s = found.lower_bound_s;
    outcome_.proven = found.proven;
    outcome_.proof = std::move(found.proof);
    if (options_.preference == PlanPreference::kNone) return;
    const StageGraphOptions graph{
        .period_s = found.period_s * (1 + options_.tolerance) * (1 + kTimeTolerance),
        .replicate = options_.replicate,
        .only_best = options_.preference == PlanPreference::kFewestHosts,
        .know_neighbours =
            options_.preference == PlanPreference::kLatency && !builder_.uniform_links()};
    const WeightSearchResult better = least_weight(graph, options_.preference, preference_budget_);
    outcome_.placement = better.placement;
    outcome_.preference_proven = better.proven;
  }

  // Any plan first, then the quickest way through.
  void find_least_latency() {
    WorkBudget first_budget(budget_.limit() / kFirstPlanShare);
    outcome_.placement = search_period(first_budget).placement;
    budget_.charge(first_budget.spent());
    const StageGraphOptions graph{.period_s = kAnyPeriod,
                                  .replicate = false,
                                  .only_best = false,
                                  .know_neighbours = !builder_.uniform_links()};
    const WeightSearchResult best = least_weight(graph, PlanPreference::kLatency, budget_);
    outcome_.placement = best.placement;
    outcome_.lower_bound_s = best.proven ? best.weight : best.bound;
    outcome_.proven = best.proven;
    outcome_.preference_proven = best.proven;
  }

  WeightSearchResult least_weight(const StageGraphOptions& graph, PlanPreference aim,
                                  WorkBudget& budget) {
    WeightSearchQuestion question{builder_, graph, {}, outcome_.placement, 0};
    if (aim == PlanPreference::kLatency) {
      question.weight = [this](const StageGraph& of, std::size_t from, const StageArc& arc) {
        return builder_.latency_s(of, from, arc);
      };
      question.known_weight = latency_of(costs_, outcome_.placement);
    } else {
      question.weight = [](const StageGraph&, std::size_t, const StageArc& arc) {
        return static_cast<double>(arc.hosts);
      };
      for (const PlacedStage& stage : outcome_.placement) {
        question.known_weight += static_cast<double>(stage.hosts);
      }
    }
    return find_least_weight(question, budget);
  }

  const PlanProblem& problem_;
  const PlannerOptions& options_;
  const CostModel costs_;
  const StageGraphBuilder builder_;
  WorkBudget budget_;
  WorkBudget preference_budget_;
  PlanOutcome outcome_;
};

}  // namespace

StageGraphBuilder builder_for(const PlanProblem& problem, const CostModel& costs, bool replicate) {
  std::vector<std::uint16_t> capacity;
  const std::size_t most = replicate ? std::numeric_limits<std::uint16_t>::max() - 1
                                     : std::min<std::size_t>(problem.layers(), kMaxPlanLayers);
  for (std::size_t u = 0; u < costs.classes(); ++u) {
    const bool listed =
        problem.order.empty() || std::ranges::find(problem.order, u) != problem.order.end();
    capacity.push_back(listed ? static_cast<std::uint16_t>(std::min(costs.hosts(u), most))
                              : std::uint16_t{0});
  }
  return {costs, std::move(capacity), problem.order};
}

PlanOutcome make_plan(const PlanProblem& problem, const PlannerOptions& options) {
  check_problem(problem);
  if (!(options.tolerance >= 0) || options.tolerance > 10) {
    fail(ErrorCode::kInvalidArgument, "a tolerance of {} is not in 0..10", options.tolerance);
  }
  if (problem.layers() == 0) {
    PlanOutcome nothing;
    nothing.proven = nothing.preference_proven = true;
    return nothing;
  }
  if (problem.classes.empty()) throw NoFeasiblePlan(explain_infeasible(problem, options, true));
  return Planner(problem, options).run();
}

}  // namespace harmonics
