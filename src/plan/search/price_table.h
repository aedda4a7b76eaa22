// Many price vectors at once: the bounds of a partial plan under all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "host_prices.h"
#include "stage_graph.h"

namespace harmonics::inline in_plan {

/// Up to kMaxPriceVectors price vectors of one graph, laid out so that the innermost loops run over
/// them. Keeps a reference to neither graph nor prices. Not thread safe: `spend` sets what `bound`
/// uses.
class PriceTable {
 public:
  /// Takes the last vectors, which are the best. With `net`, bounds are less what all hosts cost.
  PriceTable(const StageGraph& graph, std::span<const std::uint16_t> capacity,
             std::span<const HostPrices> prices, bool net)
      : vectors_(std::min(prices.size(), kMaxPriceVectors)),
        classes_(capacity.size()),
        price_((classes_ + 1) * vectors_, 0.0),
        to_go_(graph.nodes() * vectors_),
        spent_(vectors_),
        offset_(vectors_, 0.0) {
    for (std::size_t d = 0; d < vectors_; ++d) {
      const HostPrices& one = prices[prices.size() - 1 - d];
      for (std::size_t u = 0; u < classes_; ++u) {
        price_[u * vectors_ + d] = one.price[u];
        if (net) offset_[d] -= one.price[u] * capacity[u];
      }
      for (std::size_t v = 0; v < graph.nodes(); ++v) to_go_[v * vectors_ + d] = one.to_go[v];
    }
  }

  /// Sets the partial plan: the hosts it used and what else it spent.
  void spend(std::span<const std::uint16_t> used, double extra) {
    for (std::size_t d = 0; d < vectors_; ++d) spent_[d] = offset_[d] + extra;
    for (std::size_t u = 0; u < classes_; ++u) {
      if (used[u] == 0) continue;
      const double* price = price_.data() + u * vectors_;
      for (std::size_t d = 0; d < vectors_; ++d) spent_[d] += price[d] * used[u];
    }
  }

  /// The largest bound on the cost of all plans that begin with the partial plan and this arc.
  [[nodiscard]] double bound(const StageArc& arc, double extra) const {
    const std::size_t u = arc.host_class == kNoHostClass ? classes_ : arc.host_class;
    const double* price = price_.data() + u * vectors_;
    const double* to_go = to_go_.data() + static_cast<std::size_t>(arc.to) * vectors_;
    double most = 0;
    for (std::size_t d = 0; d < vectors_; ++d) {
      most = std::max(most, spent_[d] + price[d] * arc.hosts + to_go[d]);
    }
    return most + extra;
  }

  /// The share of the way that lies behind a node, by the best prices.
  [[nodiscard]] double done_at(std::int32_t node) const {
    const double whole = to_go_.front();
    return whole > 0 ? 1 - to_go_[static_cast<std::size_t>(node) * vectors_] / whole : 1;
  }

 private:
  std::size_t vectors_;
  std::size_t classes_;
  std::vector<double> price_;  // [class][vector], and zeros for arcs without a host
  std::vector<double> to_go_;  // [node][vector]
  std::vector<double> spent_;
  std::vector<double> offset_;
};

}  // namespace harmonics::inline in_plan
