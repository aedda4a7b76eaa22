#include "soft_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace harmonics::inline in_plan {
namespace {

constexpr int kMostRounds = 150;
constexpr int kMostGuidingRounds = 50;
constexpr int kRoundsPerTightening = 8;
// A relaxation may take this part of the budget.
constexpr std::uint64_t kSoftSolvesPerBudget = 24;
// How much dearer than the cheapest way an arc may be and still be followed, as a share of what a
// stage costs on average: at first, and at the end.
constexpr double kFirstWidth = 0.03;
constexpr double kLastWidth = 0.003;
// Beyond this many widths an arc counts for nothing.
constexpr double kFarAway = 12;
// How fast prices follow use, in widths.
constexpr double kStep = 0.5;
constexpr std::size_t kSoftArcsPerStep = 1;
constexpr double kUnreached = std::numeric_limits<double>::infinity();

class SoftPrices {
 public:
  SoftPrices(const StageGraph& graph, std::span<const std::uint16_t> capacity, WorkBudget& budget)
      : graph_(graph), capacity_(capacity), budget_(budget) {}

  Relaxation run(std::vector<double> start, RelaxationDepth depth) {
    price_ = std::move(start);
    const std::uint64_t last_step = budget_.spent() + budget_.limit() / kSoftSolvesPerBudget;
    const int most = depth == RelaxationDepth::kAnswer ? kMostRounds : kMostGuidingRounds;
    for (int round = 0; round < most; ++round) {
      if (!look(round % kRoundsPerTightening == 0) || budget_.spent() >= last_step) break;
      const double width = width_of(static_cast<double>(round) / most);
      const double fullest = follow(width);
      // What is followed keeps to the hosts: there is nothing to refute.
      if (fullest <= 1 && depth == RelaxationDepth::kAnswer) break;
      adjust(width);
    }
    result_.cost = result_.feasible ? best_cost_ : to_go_.front();
    if (result_.feasible) keep_best();
    return std::move(result_);
  }

 private:
  static double width_of(double done) {
    return kFirstWidth * std::pow(kLastWidth / kFirstWidth, done);
  }

  void scale_prices() {
    double all = 0;
    for (std::size_t u = 0; u < price_.size(); ++u) all += price_[u] * capacity_[u];
    if (!(all > 0) || !std::isfinite(all)) {
      price_.assign(price_.size(), 1);
      all = 0;
      for (const std::uint16_t hosts : capacity_) all += hosts;
    }
    for (double& one : price_) one /= all;
  }

  // The cheapest way under the prices; false when it proves that there is no plan.
  bool look(bool tightens) {
    scale_prices();
    double cost = cheapest_way(graph_, price_, to_go_, budget_);
    if (cost == kUnreached || cost > 1 + kPriceTolerance) return refute();
    if (tightens && tighten()) {
      cost = cheapest_way(graph_, price_, to_go_, budget_);
      if (cost > 1 + kPriceTolerance) return refute();
    }
    if (cost > best_cost_) {
      best_cost_ = cost;
      best_price_ = price_;
    }
    ArcPath path = cheapest_path(graph_, {price_, to_go_});
    stages_ = static_cast<double>(path.size());
    if (!result_.path && fits(path)) result_.path = std::move(path);
    return true;
  }

  bool refute() {
    result_.feasible = false;
    result_.path.reset();
    result_.proof = {price_, to_go_};
    return false;
  }

  bool fits(const ArcPath& path) const {
    std::vector<std::uint32_t> used(capacity_.size(), 0);
    for (const std::uint32_t index : path) {
      const StageArc& arc = graph_.arcs[index];
      if (arc.host_class != kNoHostClass) used[arc.host_class] += arc.hosts;
    }
    for (std::size_t u = 0; u < used.size(); ++u) {
      if (used[u] > capacity_[u]) return false;
    }
    return true;
  }

  // No class need cost more than the most that it saves anywhere: the cheapest way stays what it
  // is, and all hosts together cost less.
  bool tighten() {
    std::vector<double> saves(price_.size(), 0);
    for (std::size_t node = 0; node + 1 < graph_.nodes(); ++node) {
      if (to_go_[node] == kUnreached) continue;
      for (const StageArc& arc : graph_.arcs_of(node)) {
        if (arc.host_class == kNoHostClass) continue;
        const double saved = to_go_[node] - to_go_[static_cast<std::size_t>(arc.to)];
        saves[arc.host_class] = std::max(saves[arc.host_class], saved / arc.hosts);
      }
    }
    budget_.charge(graph_.arcs.size() / 3);
    double all = 0;
    for (std::size_t u = 0; u < price_.size(); ++u) {
      saves[u] = std::min(saves[u], price_[u]);
      all += saves[u] * capacity_[u];
    }
    if (all <= 0 || all > 1 - 1e-6) return false;
    price_ = std::move(saves);
    scale_prices();
    return true;
  }

  // Spreads one path over all good ones; the largest share of a class's hosts that they take.
  double follow(double width) {
    const double scale = std::max(1.0, stages_) / width;
    const std::size_t nodes = graph_.nodes();
    // Ways are many: their weights are kept relative to the node's own, as logarithms.
    weight_.assign(nodes, 0);
    arc_weight_.assign(graph_.arcs.size(), 0);
    for (std::size_t node = nodes - 1; node-- > 0;) {
      if (to_go_[node] == kUnreached) continue;
      const std::uint32_t first = graph_.first_arc[node], last = graph_.first_arc[node + 1];
      double most = -kUnreached;
      for (std::uint32_t a = first; a < last; ++a) {
        const StageArc& arc = graph_.arcs[a];
        const auto to = static_cast<std::size_t>(arc.to);
        const double price =
            arc.host_class == kNoHostClass ? 0 : price_[arc.host_class] * arc.hosts;
        arc_weight_[a] = weight_[to] - (price + to_go_[to] - to_go_[node]) * scale;
        most = std::max(most, arc_weight_[a]);
      }
      double sum = 0;
      for (std::uint32_t a = first; a < last; ++a) {
        const double below = most - arc_weight_[a];
        arc_weight_[a] = below < kFarAway ? std::exp(-below) : 0;
        sum += arc_weight_[a];
      }
      weight_[node] = most + std::log(sum);
      for (std::uint32_t a = first; a < last; ++a) arc_weight_[a] /= sum;
    }
    share_.assign(nodes, 0);
    share_[0] = 1;
    used_.assign(capacity_.size(), 0);
    for (std::size_t node = 0; node + 1 < nodes; ++node) {
      if (share_[node] <= 0) continue;
      for (std::uint32_t a = graph_.first_arc[node]; a < graph_.first_arc[node + 1]; ++a) {
        if (arc_weight_[a] <= 0) continue;
        const StageArc& arc = graph_.arcs[a];
        const double taken = share_[node] * arc_weight_[a];
        share_[static_cast<std::size_t>(arc.to)] += taken;
        if (arc.host_class != kNoHostClass) used_[arc.host_class] += taken * arc.hosts;
      }
    }
    budget_.charge(2 * graph_.arcs.size() / kSoftArcsPerStep);
    double most = 0;
    for (std::size_t u = 0; u < used_.size(); ++u) {
      if (used_[u] > 0) most = std::max(most, used_[u] / capacity_[u]);
    }
    return most;
  }

  void adjust(double width) {
    double mean = 0;
    for (std::size_t u = 0; u < used_.size(); ++u) mean += price_[u] * used_[u];
    if (!(mean > 0)) {  // all that is used costs nothing: prices that say nothing start anew
      price_.assign(price_.size(), 1);
      return;
    }
    for (std::size_t u = 0; u < used_.size(); ++u) {
      if (capacity_[u] == 0) continue;
      const double use = used_[u] / capacity_[u];
      price_[u] *= std::exp(kStep * width * std::clamp(use / mean - 1, -1.0, 2.0));
    }
  }

  void keep_best() {
    HostPrices prices{best_price_, {}};
    cheapest_way(graph_, prices.price, prices.to_go, budget_);
    result_.prices.push_back({price_, to_go_});
    result_.prices.push_back(std::move(prices));
  }

  const StageGraph& graph_;
  std::span<const std::uint16_t> capacity_;
  WorkBudget& budget_;
  Relaxation result_;
  std::vector<double> price_, best_price_, to_go_;
  double best_cost_ = -1;
  double stages_ = 1;
  std::vector<double> weight_;      // per node, of all ways from there on (logarithm)
  std::vector<double> arc_weight_;  // per arc, its part of its node's
  std::vector<double> share_;       // per node, of the path that comes by
  std::vector<double> used_;        // per class, hosts
};

}  // namespace

Relaxation solve_softly(const StageGraph& graph, std::span<const std::uint16_t> capacity,
                        std::vector<double> start, RelaxationDepth depth, WorkBudget& budget) {
  return SoftPrices(graph, capacity, budget).run(std::move(start), depth);
}

}  // namespace harmonics::inline in_plan
