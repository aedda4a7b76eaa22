#include "least_value.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "search/period_search.h"
#include "stage_graph_kinds.h"

namespace harmonics::inline in_plan {
namespace {

constexpr int kMostLooks = 200;
constexpr std::uint64_t kDefaultLookWork = 6'000'000;
// A period that is just shorter than another.
constexpr double kJustShorter = 1e-9;

// Whether a stage or a transfer keeps a period. Of graphs that know neighbours.
bool keeps_period(const GenerationStep& step, const StageGraph& graph, std::size_t from,
                  const StageArc& arc, double period_s) {
  const CostModel& costs = step.costs;
  const double most = period_s * (1 + kTimeTolerance);
  const auto to = static_cast<std::size_t>(arc.to);
  const auto j = static_cast<std::size_t>(graph.cut[to]);
  if (arc.host_class == kNoHostClass) {
    if (costs.independent_ends()) return true;
    const std::size_t sender = hand_over_class(from, costs.classes());
    const std::size_t receiver = hand_over_class(to, costs.classes());
    return costs.transfer_s(j, costs.bandwidth(sender, receiver)) <= most;
  }
  const auto i = static_cast<std::size_t>(graph.cut[from]);
  const double stage = costs.independent_ends() ? costs.stage_s(arc.host_class, i, j)
                                                : costs.compute_s(arc.host_class, i, j);
  return stage <= most;
}

class LeastValueSearch {
 public:
  explicit LeastValueSearch(const LeastValueQuestion& question) : question_(question) {
    best_ = {question.known, question.known_value, 0, 0};
  }

  LeastValue run() {
    std::vector<Interval> open{{question_.least_period_s, kAnyPeriod, 0, false}};
    double settled = std::numeric_limits<double>::infinity();
    for (int k = 0; k < kMostLooks && !open.empty(); ++k) {
      const auto least = std::ranges::min_element(
          open, {}, [&](const Interval& one) { return question_.value(one.from, one.way); });
      if (closed(question_.value(least->from, least->way))) break;
      const Interval one = *least;
      open.erase(least);
      if (one.looked && one.from >= one.to * (1 - kJustShorter)) {
        settled = std::min(settled, question_.value(one.from, one.way));
        continue;
      }
      split(one, k, open, settled);
    }
    for (const Interval& one : open) {
      settled = std::min(settled, question_.value(one.from, one.way));
    }
    best_.bound = closed(settled) ? best_.value : std::min(settled, best_.value);
    return std::move(best_);
  }

 private:
  // Plans with a period above `from` and up to `to` have a way of at least `way`.
  struct Interval {
    double from;
    double to;
    double way;
    bool looked;  // at `to` itself
  };

  bool closed(double bound) const { return bound >= best_.value * (1 - kSameGenerationValue); }

  // Looks at the longest period that can still be better, or into the middle, and puts back what
  // is not settled.
  void split(const Interval& one, int round, std::vector<Interval>& open, double& settled) {
    const double level = question_.period_of(best_.value, one.way) * (1 - kSameGenerationValue / 2);
    double at = std::min(one.to, level);
    if (one.to < kAnyPeriod && round % 2 == 1) at = (one.from + at) / 2;
    if (at < one.to) open.push_back({at, one.to, one.way, one.looked});
    if (at <= one.from) return;
    look(one, at, open, settled);
  }

  void look(const Interval& one, double at, std::vector<Interval>& open, double& settled) {
    const double worth = worth_way(one.from);
    if (worth <= one.way) return;  // nothing below has a better value
    const WeightSearchResult found = least_way(at, worth);
    const bool any = found.weight < worth;
    const double way = std::max(one.way, found.proven ? found.weight : found.bound);
    if (!any) {
      // No plan is worth it, or none was found.
      if (!found.proven) open.push_back({one.from, at, way, true});
      return;
    }
    const double period = question_.step.period_s(found.placement);
    const double value = question_.value(period, question_.step.way_s(found.placement));
    if (value < best_.value) {
      best_.value = value;
      best_.placement = found.placement;
    }
    // Plans with a period from that one's on up to `at`.
    if (!found.proven) settled = std::min(settled, question_.value(period, way));
    const double shorter = period * (1 - kJustShorter);
    if (shorter > one.from) open.push_back({one.from, shorter, way, false});
  }

  // Ways from which on no plan with a period from `from` on is better.
  double worth_way(double from) const {
    double low = 0;
    double high = best_.value;
    if (question_.value(from, 0) >= best_.value) return 0;
    for (int k = 0; k < 60; ++k) {
      const double middle = (low + high) / 2;
      (question_.value(from, middle) < best_.value ? low : high) = middle;
    }
    return high;
  }

  WeightSearchResult least_way(double period_s, double worth) {
    const StageGraphBuilder& builder =
        question_.kept == nullptr ? question_.step.builder : question_.kept->builder;
    const double longest = question_.kept == nullptr ? period_s : question_.kept_period_s;
    WeightSearchQuestion question{builder,
                                  {.period_s = longest * (1 + kTimeTolerance),
                                   .replicate = false,
                                   .only_best = false,
                                   .know_neighbours = true},
                                  {},
                                  best_.placement,
                                  worth};
    question.weight = [&](const StageGraph& graph, std::size_t from, const StageArc& arc) {
      return question_.step.builder.latency_s(graph, from, arc);
    };
    if (question_.kept != nullptr) {
      question.allows = [&, period_s](const StageGraph& graph, std::size_t from,
                                      const StageArc& arc) {
        return keeps_period(question_.step, graph, from, arc, period_s);
      };
      question.limited = [&](const StageGraph& graph, std::size_t from, const StageArc& arc) {
        return question_.kept->builder.latency_s(graph, from, arc);
      };
      question.limit = question_.kept_way_s;
    }
    WorkBudget budget(question_.work > 0 ? question_.work : kDefaultLookWork);
    WeightSearchResult found = find_least_weight(question, budget);
    best_.work += budget.spent();
    return found;
  }

  const LeastValueQuestion& question_;
  LeastValue best_;
};

}  // namespace

LeastValue find_least_value(const LeastValueQuestion& question) {
  return LeastValueSearch(question).run();
}

}  // namespace harmonics::inline in_plan
