#include <harmonics/plan/planner.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "infeasible.h"
#include "machines/shared_plan.h"
#include "plan_builder.h"
#include "search/annealing.h"
#include "search/host_prices.h"
#include "search/period_search.h"
#include "search/weight_search.h"

namespace harmonics::inline in_plan {
namespace {

// Of the work, one part more is for the preference; for the latency goal, one part is for a first
// plan.
constexpr std::uint64_t kPreferenceShare = 16;
constexpr std::uint64_t kFirstPlanShare = 4;
// So much more where a plan with one host per stage was the best one found.
constexpr std::uint64_t kImprovementShare = 4;
// With more classes than this, more steps take as long.
constexpr std::size_t kManyClasses = 40;
// A plan within this share of the bound is not compared with those for simpler goals.
constexpr double kCloseGap = 0.01;
// Values that differ by a smaller share are the same but for rounding.
constexpr double kSameValue = 1e-9;

// Plans one problem; see make_plan.
class Planner {
 public:
  Planner(const PlanProblem& problem, const PlannerOptions& options)
      : problem_(problem),
        options_(options),
        costs_(problem, options.costs),
        builder_(builder_for(problem, costs_, options.replicate)),
        budget_(work_of(problem, options)),
        preference_budget_(budget_.limit() / kPreferenceShare) {}

  PlanOutcome run() {
    if (options_.goal == PlanGoal::kLatency) {
      find_least_latency();
    } else {
      find_least_period_plan();
    }
    outcome_.period_s = period_of(costs_, outcome_.placement);
    outcome_.latency_s = latency_of(costs_, outcome_.placement);
    for (const PlacedStage& stage : outcome_.placement) outcome_.hosts += stage.hosts;
    outcome_.work = budget_.spent() + preference_budget_.spent() + single_work_ + simpler_work_;
    const double value = outcome_.objective_s(options_.goal);
    outcome_.least_s = std::min(least_s_, value);
    outcome_.least_proven = outcome_.proven;
    outcome_.proven = outcome_.proven && value <= outcome_.least_s * (1 + kSameValue);
    return std::move(outcome_);
  }

 private:
  static std::uint64_t work_of(const PlanProblem& problem, const PlannerOptions& options) {
    if (options.work > 0) return options.work;
    if (problem.classes.size() > kManyClasses) return kDefaultVeryManyKindsPlanWork;
    if (problem.classes.size() > kFewClasses) return kDefaultManyKindsPlanWork;
    return options.replicate ? kDefaultReplicatedPlanWork : kDefaultPlanWork;
  }

  PeriodResult search_period(WorkBudget& budget) {
    PeriodResult found;
    try {
      found = find_least_period({builder_, options_.replicate}, budget);
    } catch (const Error& error) {
      if (!options_.replicate || error.code() != ErrorCode::kResourceExhausted) throw;
    }
    if (options_.replicate && !found.proven) compare_with_single_hosts(found);
    const bool far = found.placement.empty()
                         ? !found.proven
                         : is_far(found.proven, found.period_s, found.lower_bound_s);
    if (costs_.overlap() == Overlap::kNone && far) {
      compare_with_overlap(found);
    }
    if (found.placement.empty()) {
      throw NoFeasiblePlan(explain_infeasible(problem_, options_, found.proven));
    }
    return found;
  }

  // No plan with one host per stage has a smaller period: each layer runs somewhere, and together
  // they run on no more hosts than there are layers.
  double least_single_period() const {
    double longest = 0;
    double all = 0;
    std::size_t hosts = 0;
    for (std::size_t k = 0; k < costs_.layers(); ++k) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t u = 0; u < costs_.classes(); ++u) {
        if (costs_.hosts(u) > 0) least = std::min(least, costs_.compute_s(u, k, k + 1));
      }
      longest = std::max(longest, least);
      all += least;
    }
    for (std::size_t u = 0; u < costs_.classes(); ++u) hosts += costs_.hosts(u);
    const std::size_t most = std::max<std::size_t>(1, std::min(hosts, costs_.layers()));
    return std::max(longest, all / static_cast<double>(most));
  }

  // A plan without replication is one with it. Where the larger search was not carried to its end
  // it may have missed even that one.
  void compare_with_single_hosts(PeriodResult& found) {
    if (!found.placement.empty() && found.period_s <= least_single_period()) return;
    const StageGraphBuilder builder = builder_for(problem_, costs_, false);
    WorkBudget budget(options_.work > 0 ? options_.work : kDefaultPlanWork);
    if (!found.placement.empty()) {
      WorkBudget glance(budget.limit());
      const bool hopeless = relaxation_rules_out(builder, found.period_s, glance);
      single_work_ = glance.spent();
      if (hopeless) return;
    }
    PeriodResult single = find_least_period({builder, false}, budget);
    single_work_ += budget.spent();
    if (single.placement.empty() && !found.placement.empty()) return;
    if (single.placement.empty()) {
      // Whether a stage has one host or more, it needs the same memory and links.
      found.proven = single.proven;
      return;
    }
    if (!found.placement.empty() && found.period_s <= single.period_s) return;
    found.placement = std::move(single.placement);
    if (problem_.order.empty()) improve(found);
    found.period_s = period_of(costs_, found.placement);
  }

  // Whether a plan may be so far from the best that a simpler goal's could beat it.
  static bool is_far(bool proven, double value, double bound) {
    return !proven && !(value <= bound * (1 + kCloseGap));
  }

  // The plan for a simpler goal, if one is found; what it takes counts.
  Placement simpler_plan(const PlannerOptions& options) {
    try {
      PlanOutcome simpler = Planner(problem_, options).run();
      simpler_work_ += simpler.work;
      return std::move(simpler.placement);
    } catch (const NoFeasiblePlan&) {
      return {};
    }
  }

  // A plan for stages that overlap is one for stages that do not.
  void compare_with_overlap(PeriodResult& found) {
    PlannerOptions options = options_;
    options.costs.overlap = Overlap::kFull;
    options.goal = PlanGoal::kThroughput;
    Placement simpler = simpler_plan(options);
    if (simpler.empty()) return;
    const double period = period_of(costs_, simpler);
    if (!std::isfinite(period) || (!found.placement.empty() && found.period_s <= period)) return;
    found.placement = std::move(simpler);
    found.period_s = period;
  }

  // The plan with the shortest period may have a shorter way than a search that was cut short
  // found.
  void compare_with_throughput(WeightSearchResult& found) {
    PlannerOptions options = options_;
    options.goal = PlanGoal::kThroughput;
    Placement simpler = simpler_plan(options);
    if (simpler.empty() || latency_of(costs_, simpler) >= latency_of(costs_, found.placement))
      return;
    found.weight = latency_of(costs_, simpler);
    found.placement = std::move(simpler);
  }

  // Lets the stages of a plan share hosts, where that helps.
  void improve(PeriodResult& found) {
    WorkBudget budget(budget_.limit() / kImprovementShare);
    std::span<const double> price;
    if (found.proof) price = found.proof->price;
    found.placement = anneal({.builder = builder_,
                              .replicate = true,
                              .known = found.placement,
                              .lower_bound_s = found.lower_bound_s,
                              .price = price,
                              .work = budget.limit()},
                             budget);
    single_work_ += budget.spent();
  }

  void find_least_period_plan() {
    PeriodResult found = search_period(budget_);
    outcome_.placement = std::move(found.placement);
    least_s_ = found.period_s;
    outcome_.lower_bound_s = found.lower_bound_s;
    outcome_.proven = found.proven;
    outcome_.proof = std::move(found.proof);
    outcome_.layer_proof = std::move(found.layer_proof);
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

  // A part of the work is often enough for some plan; where it is not, all of it is.
  Placement any_plan(WorkBudget& budget) {
    try {
      return search_period(budget).placement;
    } catch (const NoFeasiblePlan&) {
      PlannerOptions options = options_;
      options.goal = PlanGoal::kThroughput;
      Placement simpler = simpler_plan(options);
      if (simpler.empty()) throw;
      return simpler;
    }
  }

  // Any plan first, then the quickest way through.
  void find_least_latency() {
    WorkBudget first_budget(budget_.limit() / kFirstPlanShare);
    outcome_.placement = any_plan(first_budget);
    budget_.charge(first_budget.spent());
    const StageGraphOptions graph{.period_s = kAnyPeriod,
                                  .replicate = false,
                                  .only_best = false,
                                  .know_neighbours = !builder_.uniform_links()};
    WeightSearchResult best = least_weight(graph, PlanPreference::kLatency, budget_);
    if (is_far(best.proven, best.weight, best.bound)) compare_with_throughput(best);
    outcome_.placement = best.placement;
    outcome_.lower_bound_s = best.proven ? best.weight : best.bound;
    outcome_.proven = best.proven;
    outcome_.preference_proven = best.proven;
    least_s_ = latency_of(costs_, best.placement);
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
  double least_s_ = 0;
  std::uint64_t single_work_ = 0;
  std::uint64_t simpler_work_ = 0;
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
    nothing.proven = nothing.least_proven = nothing.preference_proven = true;
    return nothing;
  }
  if (problem.classes.empty()) throw NoFeasiblePlan(explain_infeasible(problem, options, true));
  const auto alone = [](const PlanProblem& own, const PlannerOptions& wishes) {
    return Planner(own, wishes).run();
  };
  return problem.machines.empty() ? alone(problem, options) : plan_shared(problem, options, alone);
}

}  // namespace harmonics::inline in_plan
