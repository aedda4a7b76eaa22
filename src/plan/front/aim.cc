#include <algorithm>
#include <cmath>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "front_search.h"

namespace harmonics::inline in_plan {
namespace {

constexpr int kMostSplits = 60;
constexpr int kMostPeriodHalvings = 40;
// Values that differ by less are the same; and a period that is just shorter than another.
constexpr double kSameAim = 1e-7;
constexpr double kJustShorter = 1e-9;
// Trades of weight against latency that are tried for a deadline.
constexpr double kTrades[] = {0.03, 0.1, 0.3, 1, 3, 10, 30};

double certified(const WeightSearchResult& found) {
  return found.proven ? found.weight : std::min(found.bound, found.weight);
}

// Looks for the plan of least value; the value of cost and energy is the period times the weight.
class AimSearch {
 public:
  AimSearch(const PlanProblem& problem, PlanAim aim, const AimOptions& options)
      : problem_(problem), aim_(aim), options_(options), search_(problem, options) {
    outcome_.aim = aim;
    outcome_.fastest = search_.fastest();
  }

  AimOutcome run() {
    check_known();
    switch (aim_) {
      case PlanAim::kPeriod: least_period(); break;
      case PlanAim::kLatency: least_latency(); break;
      case PlanAim::kHosts: fewest_hosts(); break;
      case PlanAim::kCost:
      case PlanAim::kEnergy: least_product(); break;
    }
    if (!best_) search_.refuse_deadline();
    outcome_.plan = std::move(*best_);
    const double value = outcome_.plan.value(aim_);
    outcome_.proven = outcome_.proven || outcome_.lower_bound >= value * (1 - kSameAim);
    outcome_.lower_bound = std::min(outcome_.proven ? value : outcome_.lower_bound, value);
    return std::move(outcome_);
  }

 private:
  // Periods from `from` to `to`, and the least weight of plans within `to`.
  struct Interval {
    double from = 0;
    double to = 0;
    double weight = 0;
    double plan_period = 0;  // of the plan found for `to`

    double bound() const { return from * weight; }
  };

  void check_known() const {
    if (search_.knows(aim_)) return;
    std::vector<std::string> missing;
    for (const HostClass& one : problem_.classes) {
      const double known = aim_ == PlanAim::kCost ? one.price_per_hour : one.watts;
      if (known <= 0 && std::ranges::find(missing, one.type) == missing.end()) {
        missing.push_back(one.type);
      }
    }
    fail(ErrorCode::kFailedPrecondition,
         "the aim '{}' needs '{}' of every device type; it is missing for {}", plan_aim_name(aim_),
         aim_ == PlanAim::kCost ? "price_per_hour" : "watts", listed(missing));
  }

  void consider(const Placement& placement) {
    AimedPlan plan = aimed_plan(problem_, options_.costs, placement);
    if (plan.latency_s > options_.deadline_s) return;
    const bool better = !best_ || plan.value(aim_) < best_->value(aim_) * (1 - kSameAim) ||
                        (plan.value(aim_) <= best_->value(aim_) && plan.period_s < best_->period_s);
    if (better) best_ = std::move(plan);
  }

  // Looks at a period; with a deadline also at plans that give weight for latency.
  WeightSearchResult look(double period) {
    WeightSearchResult found = search_.least(aim_, period);
    consider(found.placement);
    const double latency = latency_of(search_.costs(), found.placement);
    if (latency <= options_.deadline_s) return found;
    for (const double trade : kTrades) {
      consider(search_.least(aim_, period, trade * found.weight / latency).placement);
    }
    consider(search_.least(PlanAim::kLatency, period).placement);
    return found;
  }

  void least_product() {
    const double scale = search_.per_sample(aim_);
    const double first = search_.fastest().period_s;
    const double last = std::max(first, search_.slowest_period(aim_));
    const WeightSearchResult at_first = look(first);
    const WeightSearchResult at_last = look(last);
    std::vector<Interval> open{
        {search_.fastest().lower_bound_s, first, certified(at_first), first},
        {first, last, certified(at_last), period_of(search_.costs(), at_last.placement)}};
    // Slower plans than the one of least weight weigh no less.
    const double beyond = last * certified(at_last);
    for (int k = 0; k < kMostSplits; ++k) {
      const auto least = std::ranges::min_element(open, {}, &Interval::bound);
      const bool closed = best_ && least->bound() * scale >= best_->value(aim_) * (1 - kSameAim);
      if (closed || least->to <= first || least->from >= least->to * (1 - kSameAim)) break;
      split(open, static_cast<std::size_t>(least - open.begin()), k);
    }
    double bound = beyond;
    for (const Interval& one : open) bound = std::min(bound, one.bound());
    outcome_.lower_bound = bound * scale;
  }

  void split(std::vector<Interval>& open, std::size_t at, int round) {
    const Interval one = open[at];
    // Just below the period of the plan found there, or in the middle.
    double middle = std::sqrt(one.from * one.to);
    const double below = one.plan_period * (1 - kJustShorter);
    if (round % 2 == 0 && below > one.from * (1 + kJustShorter) && below < one.to) middle = below;
    const WeightSearchResult found = look(middle);
    const double period = period_of(search_.costs(), found.placement);
    open[at] = {middle, one.to, one.weight, one.plan_period};
    open.push_back({one.from, middle, certified(found), period});
  }

  void fewest_hosts() {
    const WeightSearchResult found = look(std::numeric_limits<double>::max() / 4);
    outcome_.lower_bound = certified(found);
  }

  void least_latency() {
    PlannerOptions planner;
    planner.costs = options_.costs;
    planner.goal = PlanGoal::kLatency;
    planner.work = options_.work;
    const PlanOutcome quickest = make_plan(problem_, planner);
    consider(quickest.placement);
    outcome_.lower_bound = quickest.lower_bound_s;
    outcome_.proven = quickest.proven;
  }

  // The shortest period at which the least latency keeps the deadline.
  void least_period() {
    double low = search_.fastest().lower_bound_s;
    double tried = search_.fastest().period_s;
    consider(search_.fastest().placement);
    consider(search_.least(PlanAim::kLatency, tried).placement);
    if (best_) {
      outcome_.lower_bound = low;
      outcome_.proven = search_.fastest().proven && best_->period_s <= tried * (1 + kSameAim);
      return;
    }
    consider(search_.least(PlanAim::kLatency, std::numeric_limits<double>::max() / 4).placement);
    low = std::max(low, tried);
    double certain = low;
    for (int k = 0; best_ && k < kMostPeriodHalvings; ++k) {
      if (best_->period_s <= low * (1 + kJustShorter)) break;
      tried = k % 2 == 0 ? best_->period_s * (1 - kJustShorter) : std::sqrt(low * best_->period_s);
      const WeightSearchResult found = search_.least(PlanAim::kLatency, tried);
      if (found.weight <= options_.deadline_s) {
        consider(found.placement);
        continue;
      }
      low = std::max(low, tried);
      if (certified(found) > options_.deadline_s) certain = std::max(certain, tried);
    }
    outcome_.lower_bound = certain;
  }

  const PlanProblem& problem_;
  PlanAim aim_;
  const AimOptions& options_;
  FrontSearch search_;
  AimOutcome outcome_;
  std::optional<AimedPlan> best_;
};

}  // namespace

PlanOutcome outcome_of(const AimOutcome& outcome) {
  PlanOutcome made = outcome.fastest;
  const bool latency = outcome.aim == PlanAim::kLatency;
  made.placement = outcome.plan.placement;
  made.period_s = outcome.plan.period_s;
  made.latency_s = outcome.plan.latency_s;
  made.hosts = outcome.plan.hosts;
  made.preference_proven = false;
  if (latency) {
    made.lower_bound_s = outcome.lower_bound;
    made.least_s = made.latency_s;
    made.proven = made.least_proven = outcome.proven;
    made.proof.reset();
    made.layer_proof.reset();
    return made;
  }
  made.least_s = std::min(outcome.fastest.period_s, made.period_s);
  made.least_proven = outcome.fastest.proven;
  made.proven = outcome.fastest.proven && made.period_s <= made.least_s * (1 + kJustShorter);
  return made;
}

AimOutcome plan_for_aim(const PlanProblem& problem, PlanAim aim, const AimOptions& options) {
  return AimSearch(problem, aim, options).run();
}

}  // namespace harmonics::inline in_plan
