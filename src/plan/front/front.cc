#include <harmonics/plan/front.h>

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>

#include "front_search.h"

namespace harmonics::inline in_plan {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kSameFigure = 1e-9;
constexpr std::size_t kFrontPeriods = 24;

std::string binding_of(const PlanProblem& problem, const CostModel& costs,
                       const Placement& placement) {
  const Plan plan = name_hosts(problem, placement);
  std::string words = "nothing";
  double longest = -1;
  for (std::size_t k = 0; k < placement.size(); ++k) {
    const StageCosts one = stage_costs(costs, placement, k);
    if (one.period_s <= longest) continue;
    longest = one.period_s;
    const char* part = one.compute_s >= std::max(one.receive_s, one.send_s) ? "compute of"
                       : one.receive_s >= one.send_s                        ? "receiving for"
                                                                            : "sending from";
    words = format("{} layers {}-{} on {}", part, plan.stages[k].first_layer,
                   plan.stages[k].last_layer, plan.stages[k].hosts.front());
    const std::size_t others = plan.stages[k].hosts.size() - 1;
    if (others > 0) words += format(" and {} more", others);
  }
  return words;
}

bool dominates(const AimedPlan& a, const AimedPlan& b, const std::vector<PlanAim>& aims) {
  bool better = false;
  for (const PlanAim aim : aims) {
    if (a.value(aim) > b.value(aim) * (1 + kSameFigure)) return false;
    better = better || a.value(aim) < b.value(aim) * (1 - kSameFigure);
  }
  return better;
}

bool same_figures(const AimedPlan& a, const AimedPlan& b, const std::vector<PlanAim>& aims) {
  return !dominates(a, b, aims) && !dominates(b, a, aims) &&
         std::ranges::all_of(aims, [&](PlanAim aim) {
           return std::abs(a.value(aim) - b.value(aim)) <=
                  kSameFigure * std::max(a.value(aim), b.value(aim));
         });
}

void add_point(PlanFront& front, AimedPlan plan) {
  for (const AimedPlan& other : front.plans) {
    if (dominates(other, plan, front.aims) || same_figures(other, plan, front.aims)) return;
  }
  std::erase_if(front.plans,
                [&](const AimedPlan& other) { return dominates(plan, other, front.aims); });
  front.plans.push_back(std::move(plan));
}

bool is_best_in_some(const PlanFront& front, const AimedPlan& plan) {
  return std::ranges::any_of(front.aims, [&](PlanAim aim) {
    return std::ranges::all_of(
        front.plans, [&](const AimedPlan& other) { return plan.value(aim) <= other.value(aim); });
  });
}

// Too many are thinned out, the first and the last of each aim stay.
void thin_out(PlanFront& front) {
  std::ranges::stable_sort(front.plans, {}, &AimedPlan::period_s);
  while (front.plans.size() > kMaxFrontPlans) {
    std::size_t closest = 1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t k = 1; k + 1 < front.plans.size(); ++k) {
      const double step = front.plans[k + 1].period_s - front.plans[k - 1].period_s;
      if (step >= least || is_best_in_some(front, front.plans[k])) continue;
      least = step;
      closest = k;
    }
    front.plans.erase(front.plans.begin() + static_cast<std::ptrdiff_t>(closest));
  }
}

}  // namespace

std::string plan_aim_name(PlanAim aim) {
  switch (aim) {
    case PlanAim::kPeriod: return "period";
    case PlanAim::kLatency: return "latency";
    case PlanAim::kHosts: return "hosts";
    case PlanAim::kCost: return "cost";
    case PlanAim::kEnergy: break;
  }
  return "energy";
}

double AimedPlan::value(PlanAim aim) const {
  switch (aim) {
    case PlanAim::kPeriod: return period_s;
    case PlanAim::kLatency: return latency_s;
    case PlanAim::kHosts: return static_cast<double>(hosts);
    case PlanAim::kCost: return cost_per_sample;
    case PlanAim::kEnergy: break;
  }
  return joules_per_sample;
}

AimedPlan aimed_plan(const PlanProblem& problem, const CostOptions& options, Placement placement) {
  const CostModel costs(problem, options);
  AimedPlan plan;
  plan.period_s = period_of(costs, placement);
  plan.latency_s = latency_of(costs, placement);
  const double per_sample = plan.period_s / static_cast<double>(problem.batch_size);
  for (const PlacedStage& stage : placement) {
    const HostClass& hosts = problem.classes[stage.host_class];
    const auto count = static_cast<double>(stage.hosts);
    plan.hosts += stage.hosts;
    plan.cost_per_sample += count * hosts.price_per_hour / kSecondsPerHour * per_sample;
    plan.joules_per_sample += count * hosts.watts * per_sample;
  }
  plan.binds = binding_of(problem, costs, placement);
  plan.placement = std::move(placement);
  return plan;
}

PlanFront plan_front(const PlanProblem& problem, const AimOptions& options) {
  FrontSearch search(problem, options);
  PlanFront front;
  front.aims = {PlanAim::kPeriod, PlanAim::kLatency, PlanAim::kHosts};
  if (search.knows(PlanAim::kCost)) front.aims.push_back(PlanAim::kCost);
  if (search.knows(PlanAim::kEnergy)) front.aims.push_back(PlanAim::kEnergy);
  const PlanOutcome& fastest = search.fastest();
  front.least_period_s = fastest.lower_bound_s;
  front.least_proven = fastest.proven;
  const auto take = [&](const Placement& placement) {
    AimedPlan plan = aimed_plan(problem, options.costs, placement);
    if (plan.latency_s <= options.deadline_s) add_point(front, std::move(plan));
  };
  take(fastest.placement);
  for (const PlanAim aim : front.aims) {
    if (aim == PlanAim::kPeriod) continue;
    const double last = std::max(search.slowest_period(aim), fastest.period_s);
    const double factor =
        last > fastest.period_s && fastest.period_s > 0
            ? std::pow(last / fastest.period_s, 1.0 / static_cast<double>(kFrontPeriods - 1))
            : 1;
    double period = fastest.period_s;
    for (std::size_t k = 0; k < kFrontPeriods; ++k, period *= factor) {
      take(search.least(aim, period).placement);
      if (factor == 1) break;
    }
    take(search.least(aim, last).placement);
  }
  if (front.plans.empty()) search.refuse_deadline();
  thin_out(front);
  return front;
}

}  // namespace harmonics::inline in_plan
