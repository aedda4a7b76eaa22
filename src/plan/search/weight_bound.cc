#include "weight_bound.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace harmonics::inline in_plan {
namespace {

constexpr int kRounds = 80;
constexpr int kPatience = 6;  // rounds without a better bound until steps become shorter
constexpr std::size_t kKeptPrices = 6;

struct CheapestPath {
  double cost = 0;
  double weight = 0;
  ArcPath path;
  std::vector<double> used;
};

// The cheapest path when hosts have prices; fills prices.to_go.
CheapestPath price_paths(const WeightQuestion& question, HostPrices& prices) {
  const StageGraph& graph = question.graph;
  const auto cost_of = [&](std::uint32_t a) {
    const StageArc& arc = graph.arcs[a];
    const double hosts =
        arc.host_class == kNoHostClass ? 0 : prices.price[arc.host_class] * arc.hosts;
    return question.weights[a] + hosts + prices.to_go[static_cast<std::size_t>(arc.to)];
  };
  prices.to_go.assign(graph.nodes(), std::numeric_limits<double>::infinity());
  prices.to_go.back() = 0;
  std::vector<std::uint32_t> best(graph.nodes());
  for (std::size_t node = graph.nodes() - 1; node-- > 0;) {
    for (std::uint32_t a = graph.first_arc[node]; a < graph.first_arc[node + 1]; ++a) {
      const double cost = cost_of(a);
      if (cost >= prices.to_go[node]) continue;
      prices.to_go[node] = cost;
      best[node] = a;
    }
  }
  CheapestPath result{prices.to_go.front(), 0, {}, std::vector<double>(question.capacity.size())};
  if (result.cost == std::numeric_limits<double>::infinity()) return result;
  for (std::size_t node = 0; node + 1 != graph.nodes();) {
    const StageArc& arc = graph.arcs[best[node]];
    result.weight += question.weights[best[node]];
    result.path.push_back(best[node]);
    if (arc.host_class != kNoHostClass) result.used[arc.host_class] += arc.hosts;
    node = static_cast<std::size_t>(arc.to);
  }
  return result;
}

}  // namespace

WeightBound bound_weight(const WeightQuestion& question, WorkBudget& budget) {
  const std::size_t classes = question.capacity.size();
  WeightBound result{-std::numeric_limits<double>::infinity(), {}, {}, question.known_weight};
  std::vector<double> price(classes, 0);
  double step_scale = 1;
  int stale = 0;
  for (int round = 0; round < kRounds && !budget.exhausted(); ++round) {
    budget.charge(question.graph.arcs.size());
    HostPrices prices{price, {}};
    CheapestPath cheapest = price_paths(question, prices);
    double bound = cheapest.cost;
    double length = 0;
    bool fits = true;
    for (std::size_t u = 0; u < classes; ++u) {
      const double over = cheapest.used[u] - question.capacity[u];
      bound -= price[u] * question.capacity[u];
      if (over > 0 || price[u] > 0) length += over * over;
      fits &= over <= 0;
    }
    if (fits && !cheapest.path.empty() && cheapest.weight < result.path_weight) {
      result.path = std::move(cheapest.path);
      result.path_weight = cheapest.weight;
    }
    stale = bound > result.bound ? 0 : stale + 1;
    if (bound > result.bound || result.prices.empty()) {
      result.bound = bound;
      result.prices.push_back(std::move(prices));
      if (result.prices.size() > kKeptPrices) result.prices.erase(result.prices.begin() + 1);
    }
    const double gap = result.path_weight - bound;
    if (length == 0 || gap <= kPriceTolerance * result.path_weight) break;
    if (stale == kPatience) {
      stale = 0;
      step_scale /= 2;
    }
    for (std::size_t u = 0; u < classes; ++u) {
      const double over = cheapest.used[u] - question.capacity[u];
      price[u] = std::max(0.0, price[u] + step_scale * gap / length * over);
    }
  }
  return result;
}

}  // namespace harmonics::inline in_plan
