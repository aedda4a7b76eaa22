// Lower bounds by pricing hosts: the linear relaxation of "is there a plan with this period".
//
// Give every host of class u a price p_u >= 0 so that all hosts together cost 1. A plan takes hosts
// that exist, so it costs at most 1. If even the cheapest path through the stage graph costs more,
// no plan keeps the period: the prices are a proof that anybody can check with one shortest path.
// The best prices are the dual solution of the relaxation in which paths may be mixed; they are
// found by column generation, where the cheapest path under trial prices is the next column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stage_graph.h"
#include "work_budget.h"

namespace harmonics::inline in_plan {

/// A path is refuted when it costs more than 1 by this much, far above rounding errors.
inline constexpr double kPriceTolerance = 1e-9;

/// The most price vectors that a relaxation leaves and a search uses.
inline constexpr std::size_t kMaxPriceVectors = 24;

/// Up to so many classes get a row of the relaxation each; with more, prices are found softly
/// (soft_prices.h), since columns would take too many rounds.
inline constexpr std::size_t kMostRowClasses = 128;

struct HostPrices {
  std::vector<double> price;  // per class; capacity . price == 1
  /// Per node the price of the cheapest path from there to the end; infinite where there is none.
  std::vector<double> to_go;
};

/// A path: the arcs it takes, by their index in the graph.
using ArcPath = std::vector<std::uint32_t>;

/// Fills `to_go` for the prices and gives the cost of the whole way; infinite without a path.
double cheapest_way(const StageGraph& graph, std::span<const double> price,
                    std::vector<double>& to_go, WorkBudget& budget);
/// The path that `to_go` describes; there must be one.
[[nodiscard]] ArcPath cheapest_path(const StageGraph& graph, const HostPrices& prices);

/// What is known about one graph.
struct Relaxation {
  /// False: no plan keeps the period, and `proof` are prices that show it (empty when there is no
  /// path at all).
  bool feasible = true;
  HostPrices proof;
  /// A path within the hosts that there are, if one turned up.
  std::optional<ArcPath> path;
  /// Prices seen on the way, the best last; bounds for a search.
  std::vector<HostPrices> prices;
  /// Of the cheapest path under the best prices; only where classes are many, else 0.
  double cost = 0;
};

enum class RelaxationDepth {
  /// Stop once the answer is known.
  kAnswer,
  /// Go on to the best prices, which prune a search best.
  kBestPrices,
};

/// Solves the relaxation for one graph after another and carries prices over from one to the next,
/// since neighbouring periods have similar prices. Not thread safe.
class HostPricing {
 public:
  /// Keeps references to both.
  HostPricing(std::span<const std::uint16_t> capacity, WorkBudget& budget)
      : capacity_(capacity), budget_(budget) {}

  [[nodiscard]] Relaxation solve(const StageGraph& graph, RelaxationDepth depth);

 private:
  std::span<const std::uint16_t> capacity_;
  WorkBudget& budget_;
  std::vector<double> last_price_;
};

}  // namespace harmonics::inline in_plan
