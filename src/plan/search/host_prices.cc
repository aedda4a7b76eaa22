#include "host_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "soft_prices.h"

namespace harmonics::inline in_plan {
namespace {

constexpr double kNeverDone = std::numeric_limits<double>::infinity();
constexpr int kMaxColumns = 600;
// One relaxation may take this part of the budget; past it, its answer is that it refutes nothing.
constexpr std::uint64_t kSolvesPerBudget = 32;
// Below this the master problem counts as solved: its prices cannot improve enough to matter.
constexpr double kOptimalGap = 1e-10;
constexpr double kPivotFloor = 1e-11;
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

// The master problem over the paths found so far: mix them (weights w, sum 1) so that the share z
// of hosts in use is least, used_u . w + slack_u = z capacity_u. One row per class and one for the
// sum; the basis inverse is kept and updated column by column.
class MasterProblem {
 public:
  MasterProblem(std::span<const std::uint16_t> capacity, std::span<const double> first_path)
      : classes_(capacity.size()), rows_(classes_ + 1) {
    std::size_t fullest = 0;
    while (capacity[fullest] == 0) ++fullest;  // a path exists, so some class has hosts
    for (std::size_t u = fullest + 1; u < classes_; ++u) {
      if (first_path[u] * capacity[fullest] > first_path[fullest] * capacity[u]) fullest = u;
    }
    // Start: the first path alone; z is set by the class that it fills most, slack fills the rest.
    // Inverse of that basis, written out.
    inverse_.assign(rows_ * rows_, 0);
    value_.assign(rows_, 0);
    cost_.assign(rows_, 0);
    cost_[fullest] = 1;
    const double z_per_use = 1.0 / capacity[fullest];
    for (std::size_t u = 0; u < classes_; ++u) {
      const double share = capacity[u] * z_per_use;
      if (u == fullest) {
        at(u, u) = -z_per_use;
        at(u, classes_) = first_path[u] * z_per_use;
      } else {
        at(u, u) = 1;
        at(u, fullest) = -share;
        at(u, classes_) = share * first_path[fullest] - first_path[u];
      }
    }
    at(classes_, classes_) = 1;
    for (std::size_t r = 0; r < rows_; ++r) value_[r] = at(r, classes_);
  }

  double objective() const {
    double sum = 0;
    for (std::size_t r = 0; r < rows_; ++r) sum += cost_[r] * value_[r];
    return sum;
  }

  // The price of each class in the present basis; a negative one means that slack should enter.
  std::vector<double> prices() const {
    std::vector<double> result(classes_, 0);
    for (std::size_t r = 0; r < rows_; ++r) {
      if (cost_[r] == 0) continue;
      for (std::size_t u = 0; u < classes_; ++u) result[u] -= cost_[r] * at(r, u);
    }
    return result;
  }

  bool enter_slack(std::size_t u) {
    std::vector<double> column(rows_);
    for (std::size_t r = 0; r < rows_; ++r) column[r] = at(r, u);
    return pivot(column);
  }

  bool enter_path(std::span<const double> used) {
    std::vector<double> column(rows_);
    for (std::size_t r = 0; r < rows_; ++r) {
      double sum = at(r, classes_);
      for (std::size_t u = 0; u < classes_; ++u) sum += at(r, u) * used[u];
      column[r] = sum;
    }
    return pivot(column);
  }

  std::size_t work() const { return rows_ * rows_ / 2 + 1; }

 private:
  double& at(std::size_t row, std::size_t column) { return inverse_[row * rows_ + column]; }
  double at(std::size_t row, std::size_t column) const { return inverse_[row * rows_ + column]; }

  // Puts a column without cost into the basis; false when nothing can leave.
  bool pivot(const std::vector<double>& column) {
    std::size_t leaving = rows_;
    double least = kNeverDone;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (column[r] <= kPivotFloor) continue;
      const double ratio = std::max(0.0, value_[r]) / column[r];
      if (ratio < least - 1e-13) {
        least = ratio;
        leaving = r;
      }
    }
    if (leaving == rows_) return false;
    const double scale = 1 / column[leaving];
    for (std::size_t k = 0; k < rows_; ++k) at(leaving, k) *= scale;
    value_[leaving] *= scale;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (r == leaving || column[r] == 0) continue;
      for (std::size_t k = 0; k < rows_; ++k) at(r, k) -= column[r] * at(leaving, k);
      value_[r] -= column[r] * value_[leaving];
    }
    cost_[leaving] = 0;
    return true;
  }

  std::size_t classes_;
  std::size_t rows_;
  std::vector<double> inverse_;
  std::vector<double> value_;
  std::vector<double> cost_;
};

// Solves one relaxation; see HostPricing.
class ColumnGeneration {
 public:
  ColumnGeneration(const StageGraph& graph, std::span<const std::uint16_t> capacity,
                   WorkBudget& budget)
      : graph_(graph), capacity_(capacity), budget_(budget) {}

  Relaxation run(std::vector<double> start, RelaxationDepth depth) {
    if (!try_prices(std::move(start))) return std::move(result_);
    MasterProblem master(capacity_, used_);
    const std::uint64_t last_step = budget_.spent() + budget_.limit() / kSolvesPerBudget;
    for (int round = 0; round < kMaxColumns && budget_.spent() < last_step; ++round) {
      budget_.charge(master.work());
      std::vector<double> prices = master.prices();
      const auto lowest = std::ranges::min_element(prices);
      if (*lowest < -kPivotFloor) {
        if (!master.enter_slack(static_cast<std::size_t>(lowest - prices.begin()))) break;
        continue;
      }
      if (depth == RelaxationDepth::kAnswer && (result_.path || master.objective() <= 1)) break;
      if (!try_prices(std::move(prices))) return std::move(result_);
      if (cost_ * scale_ >= master.objective() - kOptimalGap) break;
      if (!master.enter_path(used_)) break;
    }
    return std::move(result_);
  }

 private:
  // Prices the graph; false when that proves that there is no plan. Keeps the cheapest path's use.
  bool try_prices(std::vector<double> price) {
    scale_ = 0;
    for (std::size_t u = 0; u < price.size(); ++u) {
      price[u] = std::max(0.0, price[u]);
      scale_ += price[u] * capacity_[u];
    }
    if (scale_ > 0) {
      for (double& one : price) one /= scale_;
    }
    HostPrices prices{std::move(price), {}};
    cost_ = cheapest_way(graph_, prices.price, prices.to_go, budget_);
    if (cost_ > 1 + kPriceTolerance) {
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
    if (result_.prices.size() == kMaxPriceVectors) result_.prices.erase(result_.prices.begin());
    result_.prices.push_back(std::move(prices));
    return true;
  }

  const StageGraph& graph_;
  std::span<const std::uint16_t> capacity_;
  WorkBudget& budget_;
  Relaxation result_;
  double scale_ = 1;
  double cost_ = 0;
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
  Relaxation result = capacity_.size() > kFewClasses
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
