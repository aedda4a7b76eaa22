#include "front_search.h"

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>

namespace harmonics::inline in_plan {
namespace {

// Steps of work of one question.
constexpr std::uint64_t kDefaultAimWork = 6'000'000;
// Of the seconds in an hour.
constexpr double kPerHour = 1.0 / 3600;

PlannerOptions fastest_options(const AimOptions& options) {
  PlannerOptions planner;
  planner.costs = options.costs;
  planner.replicate = options.replicate;
  planner.work = options.work;
  return planner;
}

}  // namespace

FrontSearch::FrontSearch(const PlanProblem& problem, const AimOptions& options)
    : problem_(problem),
      options_(options),
      costs_(problem, options.costs),
      builder_(builder_for(problem, costs_, options.replicate)) {
  if (!problem.machines.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "hosts that share a machine: plans are only compared by period and latency there");
  }
  fastest_ = make_plan(problem, fastest_options(options));
}

bool FrontSearch::knows(PlanAim aim) const {
  return std::ranges::all_of(problem_.classes, [&](const HostClass& one) {
    if (one.hosts.empty()) return true;
    return aim == PlanAim::kCost     ? one.price_per_hour > 0
           : aim == PlanAim::kEnergy ? one.watts > 0
                                     : true;
  });
}

double FrontSearch::class_weight(PlanAim aim, std::size_t host_class) const {
  const HostClass& one = problem_.classes[host_class];
  switch (aim) {
    case PlanAim::kCost: return one.price_per_hour;
    case PlanAim::kEnergy: return one.watts;
    case PlanAim::kHosts: return 1;
    case PlanAim::kPeriod:
    case PlanAim::kLatency: break;
  }
  return 0;
}

double FrontSearch::per_sample(PlanAim aim) const {
  return (aim == PlanAim::kCost ? kPerHour : 1) / static_cast<double>(problem_.batch_size);
}

double FrontSearch::weight(PlanAim aim, const Placement& placement) const {
  if (aim == PlanAim::kLatency) return latency_of(costs_, placement);
  double sum = 0;
  for (const PlacedStage& stage : placement) {
    sum += static_cast<double>(stage.hosts) * class_weight(aim, stage.host_class);
  }
  return sum;
}

WeightSearchResult FrontSearch::least(PlanAim aim, double period_s, double latency) {
  const double times = aim == PlanAim::kLatency ? 1 : latency;
  const StageGraphOptions graph{.period_s = period_s * (1 + kTimeTolerance),
                                .replicate = options_.replicate,
                                .only_best = false,
                                .know_neighbours = times > 0 && !builder_.uniform_links()};
  WeightSearchQuestion question{builder_, graph, {}, fastest_.placement, 0};
  question.known_weight = weight(aim, fastest_.placement);
  if (aim != PlanAim::kLatency) {
    question.known_weight += times * latency_of(costs_, fastest_.placement);
  }
  question.weight = [&](const StageGraph& of, std::size_t from, const StageArc& arc) {
    const double hosts = arc.host_class == kNoHostClass
                             ? 0
                             : static_cast<double>(arc.hosts) * class_weight(aim, arc.host_class);
    return times > 0 ? hosts + times * builder_.latency_s(of, from, arc) : hosts;
  };
  WorkBudget budget(options_.work > 0 ? options_.work : kDefaultAimWork);
  WeightSearchResult found = find_least_weight(question, budget);
  spent_ += budget.spent();
  return found;
}

double FrontSearch::slowest_period(PlanAim aim) {
  const WeightSearchResult any = least(aim, std::numeric_limits<double>::max() / 4);
  return period_of(costs_, any.placement);
}

void FrontSearch::refuse_deadline() {
  PlannerOptions planner = fastest_options(options_);
  planner.goal = PlanGoal::kLatency;
  planner.replicate = false;
  const PlanOutcome quickest = make_plan(problem_, planner);
  throw NoFeasiblePlan(
      format("no feasible plan: deadline: the quickest way through all layers that was found takes "
             "{:.6f} s ({}), the deadline is {:.6f} s",
             quickest.latency_s,
             quickest.proven ? "proven" : format("none is below {:.6f} s", quickest.lower_bound_s),
             options_.deadline_s));
}

}  // namespace harmonics::inline in_plan
