#include "host_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "master_problem.h"
#include "soft_prices.h"

namespace harmonics::inline in_plan {
namespace {

constexpr double kNeverDone = std::numeric_limits<double>::infinity();
constexpr int kMaxColumns = 6'000;
// One relaxation may take this part of the budget; past it, its answer is that it refutes nothing.
constexpr std::uint64_t kSolvesPerBudget = 32;
// Below this the master problem counts as solved: its prices cannot improve enough to matter.
constexpr double kOptimalGap = 1e-10;
// How much of the best prices stays in those that are tried (Wentges 1997).
constexpr double kKeptOfBest = 0.8;
constexpr std::size_t kArcsPerStep = 3;

double price_of(std::span<const double> price, const StageArc& arc) {
  return arc.host_class == kNoHostClass ? 0 : price[arc.host_class] * arc.hosts;
}

std::vector<double> hosts_used(const StageGraph& graph, const ArcPath& path, std::size_t classes) {
  std::vector<double> used(classes, 0);
  for (const std::uint32_t index : path) {
    const StageArc& arc = graph.arcs[index];
    if (arc.host_class != kNoHostClass) used[arc.host_class] += arc.hosts;
  }
  return used;
}

// Solves one relaxation; see HostPricing.
class ColumnGeneration {
 public:
  ColumnGeneration(const StageGraph& graph, std::span<const std::uint16_t> capacity,
                   WorkBudget& budget)
      : graph_(graph), capacity_(capacity), budget_(budget) {}

  Relaxation run(std::vector<double> start, RelaxationDepth depth) {
    if (!try_prices(std::move(start))) return std::move(result_);
    const std::vector<double> hosts(capacity_.begin(), capacity_.end());
    MasterProblem master(hosts, used_);
    const std::uint64_t last_step = budget_.spent() + budget_.limit() / kSolvesPerBudget;
    for (int round = 0; round < kMaxColumns && budget_.spent() < last_step; ++round) {
      budget_.charge(master.work());
      std::vector<double> prices = master.prices();
      const auto lowest = std::ranges::min_element(prices);
      if (*lowest < -MasterProblem::kPivotFloor) {
        if (!master.enter_slack(static_cast<std::size_t>(lowest - prices.begin()))) break;
        continue;
      }
      if (depth == RelaxationDepth::kAnswer && (result_.path || master.objective() <= 1)) break;
      if (!find_column(prices, master.objective())) return std::move(result_);
      if (cost_of_use(prices) >= master.objective() - kOptimalGap) break;
      if (!master.enter_path(used_)) break;
    }
    return std::move(result_);
  }

 private:
  // The next column: the cheapest path under prices between the best ones and the master's, which
  // swing far about the best ones, or under the master's where that path is none for the master.
  // False when the prices prove that there is no plan.
  bool find_column(const std::vector<double>& prices, double objective) {
    std::vector<double> between(prices.size());
    double all = 0;
    for (std::size_t u = 0; u < prices.size(); ++u) {
      all += std::max(0.0, prices[u]) * capacity_[u];
    }
    for (std::size_t u = 0; u < prices.size(); ++u) {
      between[u] =
          kKeptOfBest * best_price_[u] + (1 - kKeptOfBest) * std::max(0.0, prices[u]) / all;
    }
    if (!try_prices(std::move(between))) return false;
    return cost_of_use(prices) < objective - kOptimalGap || try_prices(prices);
  }

  double cost_of_use(const std::vector<double>& prices) const {
    double cost = 0;
    for (std::size_t u = 0; u < prices.size(); ++u) cost += prices[u] * used_[u];
    return cost;
  }

  // Prices the graph; false when that proves that there is no plan. Keeps the cheapest path's use.
  bool try_prices(std::vector<double> price) {
    double all = 0;
    for (std::size_t u = 0; u < price.size(); ++u) {
      price[u] = std::max(0.0, price[u]);
      all += price[u] * capacity_[u];
    }
    if (all > 0) {
      for (double& one : price) one /= all;
    }
    HostPrices prices{std::move(price), {}};
    const double cost = cheapest_way(graph_, prices.price, prices.to_go, budget_);
    if (cost > 1 + kPriceTolerance) {
      result_.feasible = false;
      result_.path.reset();
      result_.proof = std::move(prices);
      return false;
    }
    ArcPath path = cheapest_path(graph_, prices);
    used_ = hosts_used(graph_, path, capacity_.size());
    bool fits = true;
    for (std::size_t u = 0; u < used_.size(); ++u) fits &= used_[u] <= capacity_[u];
    if (fits) result_.path = std::move(path);
    if (cost > best_cost_) {
      best_cost_ = cost;
      best_price_ = prices.price;
    }
    if (result_.prices.size() == kMaxPriceVectors) result_.prices.erase(result_.prices.begin());
    result_.prices.push_back(std::move(prices));
    return true;
  }

  const StageGraph& graph_;
  std::span<const std::uint16_t> capacity_;
  WorkBudget& budget_;
  Relaxation result_;
  double best_cost_ = -1;
  std::vector<double> best_price_;
  std::vector<double> used_;
};

}  // namespace

double cheapest_way(const StageGraph& graph, std::span<const double> price,
                    std::vector<double>& to_go, WorkBudget& budget) {
  budget.charge((graph.arcs.size() + graph.nodes()) / kArcsPerStep + 1);
  to_go.assign(graph.nodes(), kNeverDone);
  to_go.back() = 0;
  for (std::size_t node = graph.nodes() - 1; node-- > 0;) {
    double least = kNeverDone;
    for (const StageArc& arc : graph.arcs_of(node)) {
      least = std::min(least, price_of(price, arc) + to_go[static_cast<std::size_t>(arc.to)]);
    }
    to_go[node] = least;
  }
  return to_go.front();
}

ArcPath cheapest_path(const StageGraph& graph, const HostPrices& prices) {
  ArcPath path;
  const auto end = static_cast<std::size_t>(graph.end());
  for (std::size_t node = 0; node != end;) {
    std::uint32_t best = graph.first_arc[node];
    double least = kNeverDone;
    for (std::uint32_t k = best; k < graph.first_arc[node + 1]; ++k) {
      const StageArc& arc = graph.arcs[k];
      const double cost =
          price_of(prices.price, arc) + prices.to_go[static_cast<std::size_t>(arc.to)];
      if (cost < least) {
        least = cost;
        best = k;
      }
    }
    path.push_back(best);
    node = static_cast<std::size_t>(graph.arcs[best].to);
  }
  return path;
}

Relaxation HostPricing::solve(const StageGraph& graph, RelaxationDepth depth) {
  if (last_price_.size() != capacity_.size()) last_price_.assign(capacity_.size(), 1);
  Relaxation result = capacity_.size() > kMostRowClasses
                          ? solve_softly(graph, capacity_, last_price_, depth, budget_)
                          : ColumnGeneration(graph, capacity_, budget_).run(last_price_, depth);
  if (!result.feasible) {
    last_price_ = result.proof.price;
  } else if (!result.prices.empty()) {
    last_price_ = result.prices.back().price;
  }
  return result;
}

}  // namespace harmonics::inline in_plan
