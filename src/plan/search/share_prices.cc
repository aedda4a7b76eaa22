#include "share_prices.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "master_problem.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::size_t kMostParts = 12;
constexpr std::size_t kMostRules = 60;
constexpr int kMostRuleRounds = 12;
constexpr int kMostSharePaths = 400;
// A rule that the mixture breaks by less than this share is not worth a row.
constexpr double kBroken = 1e-3;
constexpr double kSolvedGap = 1e-7;
constexpr std::size_t kShareArcsPerStep = 2;
constexpr double kNoWay = std::numeric_limits<double>::infinity();

/// What a path takes: hosts of a class, stage by stage.
struct StageUse {
  std::size_t host_class;
  std::size_t hosts;
};
using PathUse = std::vector<StageUse>;

// One question; see SharePricing.
class ShareColumns {
 public:
  ShareColumns(const StageGraph& graph, std::span<const std::uint16_t> capacity,
               std::vector<SharePrice>& rules, WorkBudget& budget)
      : graph_(graph), capacity_(capacity), rules_(rules), budget_(budget) {
    std::size_t at = 0;
    for (const std::uint16_t hosts : capacity) {
      table_at_.push_back(at);
      at += hosts + std::size_t{1};
    }
    table_.resize(at);
  }

  // Whether prices were found that refute the graph; they are in `price`.
  bool refutes(std::vector<double>& price) {
    for (int round = 0; round < kMostRuleRounds && !budget_.exhausted(); ++round) {
      price.resize(rows(), 0);
      if (!buy(price)) return true;
      std::swap(paths_.front(), paths_.back());
      MasterProblem master(limits(), row_use(paths_.front()));
      const Answer answer = solve(master, price);
      if (answer != Answer::kMixed) return answer == Answer::kRefuted;
      if (!add_rules(master)) return false;
    }
    return false;
  }

 private:
  enum class Answer { kRefuted, kMixed, kUnknown };

  std::size_t rows() const { return capacity_.size() + rules_.size(); }

  std::vector<double> limits() const {
    std::vector<double> result(capacity_.begin(), capacity_.end());
    for (const SharePrice& rule : rules_) result.push_back(static_cast<double>(rule.parts));
    return result;
  }

  std::vector<double> row_use(const PathUse& path) const {
    std::vector<double> result(rows(), 0);
    for (const auto& [u, hosts] : path) {
      result[u] += static_cast<double>(hosts);
      for (std::size_t k = 0; k < rules_.size(); ++k) {
        if (rules_[k].host_class != u) continue;
        result[capacity_.size() + k] +=
            static_cast<double>(shares_counted(hosts, rules_[k].parts, capacity_[u]));
      }
    }
    return result;
  }

  // Scales the prices so that all there is costs 1.
  void scale(std::vector<double>& price) const {
    const std::vector<double> limit = limits();
    double all = 0;
    for (std::size_t r = 0; r < price.size(); ++r) {
      price[r] = std::max(0.0, price[r]);
      all += price[r] * limit[r];
    }
    if (!(all > 0)) {
      price.assign(price.size(), 0);
      for (std::size_t u = 0; u < capacity_.size(); ++u) {
        price[u] = 1;
        all += capacity_[u];
      }
    }
    for (double& one : price) one /= all;
  }

  // Looks for the cheapest path and keeps what it takes; false when it costs more than all there
  // is.
  bool buy(std::vector<double>& price) {
    scale(price);
    for (std::size_t u = 0; u < capacity_.size(); ++u) {
      double* const curve = table_.data() + table_at_[u];
      for (std::size_t h = 0; h <= capacity_[u]; ++h) curve[h] = price[u] * static_cast<double>(h);
    }
    for (std::size_t k = 0; k < rules_.size(); ++k) {
      const auto& [u, parts, unused] = rules_[k];
      const double one = price[capacity_.size() + k];
      double* const curve = table_.data() + table_at_[u];
      if (one == 0) continue;
      for (std::size_t h = 1; h <= capacity_[u]; ++h) {
        curve[h] += one * static_cast<double>(shares_counted(h, parts, capacity_[u]));
      }
    }
    budget_.charge(table_.size() / 2 + graph_.arcs.size() / kShareArcsPerStep + graph_.nodes());
    cost_ = find_cheapest();
    if (cost_ > 1 + kPriceTolerance) return false;
    paths_.push_back(cheapest_use());
    return true;
  }

  double arc_price(const StageArc& arc) const {
    return arc.host_class == kNoHostClass ? 0 : table_[table_at_[arc.host_class] + arc.hosts];
  }

  double find_cheapest() {
    to_go_.assign(graph_.nodes(), kNoWay);
    best_.assign(graph_.nodes(), 0);
    to_go_.back() = 0;
    for (std::size_t node = graph_.nodes() - 1; node-- > 0;) {
      double least = kNoWay;
      std::uint32_t best = 0;
      for (std::uint32_t a = graph_.first_arc[node]; a < graph_.first_arc[node + 1]; ++a) {
        const StageArc& arc = graph_.arcs[a];
        const double cost = arc_price(arc) + to_go_[static_cast<std::size_t>(arc.to)];
        if (cost >= least) continue;
        least = cost;
        best = a;
      }
      to_go_[node] = least;
      best_[node] = best;
    }
    return to_go_.front();
  }

  PathUse cheapest_use() const {
    PathUse use;
    for (std::size_t node = 0; node + 1 != graph_.nodes();) {
      const StageArc& arc = graph_.arcs[best_[node]];
      if (arc.host_class != kNoHostClass) use.push_back({arc.host_class, arc.hosts});
      node = static_cast<std::size_t>(arc.to);
    }
    return use;
  }

  // Mixes paths until they keep to all limits, or prices show that none do. Paths of rounds before
  // come first: they cost no search.
  Answer solve(MasterProblem& master, std::vector<double>& price) {
    std::vector<std::vector<double>> use;
    for (const PathUse& path : paths_) use.push_back(row_use(path));
    for (int step = 0; step < kMostSharePaths && !budget_.exhausted(); ++step) {
      budget_.charge(master.work());
      std::vector<double> dual = master.prices();
      const auto lowest = std::ranges::min_element(dual);
      if (*lowest < -MasterProblem::kPivotFloor) {
        if (!master.enter_slack(static_cast<std::size_t>(lowest - dual.begin()))) break;
        continue;
      }
      if (master.objective() <= 1) return Answer::kMixed;
      std::size_t cheapest = 0;
      double least = kNoWay;
      for (std::size_t k = 0; k < use.size(); ++k) {
        double cost = 0;
        for (std::size_t r = 0; r < dual.size(); ++r) cost += dual[r] * use[k][r];
        if (cost < least) least = cost, cheapest = k;
      }
      budget_.charge(use.size() * dual.size() / 4);
      if (least < master.objective() - kSolvedGap) {
        if (!master.enter_path(use[cheapest], cheapest)) break;
        continue;
      }
      price = std::move(dual);
      if (!buy(price)) return Answer::kRefuted;
      use.push_back(row_use(paths_.back()));
      if (cost_ >= master.objective() - kSolvedGap) break;
      if (!master.enter_path(use.back(), use.size() - 1)) break;
    }
    return Answer::kUnknown;
  }

  // The rule of each class that the mixture breaks most; false when it breaks none.
  bool add_rules(const MasterProblem& master) {
    std::vector<std::vector<double>> counted(capacity_.size(),
                                             std::vector<double>(kMostParts + 1, 0));
    master.for_each_path([&](std::size_t number, double weight) {
      const PathUse& path = paths_[number];
      for (const auto& [u, hosts] : path) {
        for (std::size_t parts = 1; parts <= kMostParts; ++parts) {
          counted[u][parts] +=
              weight * static_cast<double>(shares_counted(hosts, parts, capacity_[u]));
        }
      }
    });
    bool added = false;
    for (std::size_t u = 0; u < capacity_.size() && rules_.size() < kMostRules; ++u) {
      std::size_t worst = 0;
      double most = 1 + kBroken;
      for (std::size_t parts = 1; parts <= kMostParts; ++parts) {
        const double share = counted[u][parts] / static_cast<double>(parts);
        if (share > most) most = share, worst = parts;
      }
      if (worst == 0) continue;
      rules_.push_back({u, worst, 0});
      added = true;
    }
    return added;
  }

  const StageGraph& graph_;
  std::span<const std::uint16_t> capacity_;
  std::vector<SharePrice>& rules_;
  WorkBudget& budget_;
  std::vector<std::size_t> table_at_;
  std::vector<double> table_;  // per class and number of hosts, what they cost
  std::vector<double> to_go_;
  std::vector<std::uint32_t> best_;  // per node, the arc to take
  std::vector<PathUse> paths_;
  double cost_ = 0;
};

}  // namespace

std::optional<PeriodProof> SharePricing::refute(const StageGraph& graph, double period_s) {
  if (price_.empty()) price_.assign(capacity_.size(), 1);
  ShareColumns columns(graph, capacity_, rules_, budget_);
  if (!columns.refutes(price_)) return std::nullopt;
  PeriodProof proof{period_s, {price_.begin(), price_.begin() + capacity_.size()}, {}};
  for (std::size_t k = 0; k < rules_.size(); ++k) {
    const double price = price_[capacity_.size() + k];
    if (price > 0) proof.shares.push_back({rules_[k].host_class, rules_[k].parts, price});
  }
  return proof;
}

}  // namespace harmonics::inline in_plan
