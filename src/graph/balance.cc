#include "balance.h"

#include <algorithm>
#include <functional>

namespace harmonics::inline in_graph {
namespace {

using Starts = std::vector<std::size_t>;

class Balancer {
 public:
  Balancer(std::span<const double> costs, std::span<const double> weights)
      : weights_(weights), sums_(costs.size() + 1, 0.0), slack_(costs.size() - weights.size()) {
    for (std::size_t i = 0; i < costs.size(); ++i) sums_[i + 1] = sums_[i] + costs[i];
  }

  Starts solve() const {
    const bool equal = std::adjacent_find(weights_.begin(), weights_.end(),
                                          std::not_equal_to<>()) == weights_.end();
    // The best bound is one of finitely many doubles, so halving ends when none lies between.
    double refused = 0;
    double accepted = sums_.back() / *std::min_element(weights_.begin(), weights_.end());
    Starts best = equal ? fill(accepted) : search(accepted);
    while (true) {
      const double bound = refused + (accepted - refused) / 2;
      if (bound <= refused || bound >= accepted) return best;
      Starts starts = equal ? fill(bound) : search(bound);
      if (starts.empty()) {
        refused = bound;
      } else {
        accepted = bound;
        best = std::move(starts);
      }
    }
  }

 private:
  bool fits(std::size_t worker, std::size_t begin, std::size_t end, double bound) const {
    return (sums_[end] - sums_[begin]) / weights_[worker] <= bound;
  }

  // Equal weights: every item fits everywhere or nowhere, so taking as much as fits is best. Empty
  // when the bound cannot be kept.
  Starts fill(double bound) const {
    Starts starts;
    std::size_t position = 0;
    for (std::size_t worker = 0; worker < weights_.size(); ++worker) {
      starts.push_back(position);
      const std::size_t limit = worker + 1 + slack_;  // leaves one item for each later worker
      std::size_t end = position;
      while (end < limit && fits(worker, position, end + 1, bound)) ++end;
      if (end == position) return {};
      position = end;
    }
    return position + 1 == sums_.size() ? starts : Starts{};
  }

  // Unequal weights: a light worker may need a light item, so more is not always better. Row w
  // marks the places where worker w can begin: `w + offset` for offsets 0..slack. From the places
  // where it can end, the latest start before each is the best one.
  Starts search(double bound) const {
    std::vector<std::vector<bool>> rows(weights_.size() + 1, std::vector<bool>(slack_ + 1, false));
    rows[0][0] = true;
    for (std::size_t worker = 0; worker < weights_.size(); ++worker) {
      std::size_t begin = sums_.size();
      for (std::size_t offset = 0; offset <= slack_; ++offset) {
        if (rows[worker][offset]) begin = worker + offset;
        const std::size_t end = worker + 1 + offset;
        rows[worker + 1][offset] = begin < end && fits(worker, begin, end, bound);
      }
    }
    if (!rows.back()[slack_]) return {};
    Starts starts(weights_.size());
    std::size_t offset = slack_;
    for (std::size_t worker = weights_.size(); worker-- > 0;) {
      while (!rows[worker][offset]) --offset;
      starts[worker] = worker + offset;
    }
    return starts;
  }

  std::span<const double> weights_;
  std::vector<double> sums_;  // sums_[i] = cost of the first i items
  std::size_t slack_;
};

}  // namespace

std::vector<std::size_t> balance(std::span<const double> costs, std::span<const double> weights) {
  return Balancer(costs, weights).solve();
}

}  // namespace harmonics::inline in_graph
