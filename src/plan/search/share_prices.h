// Bounds for replicated stages that know that hosts come in whole plans: prices on shares of a
// class.
//
// Prices per host (host_prices.h) let a mixture of two plans use a class twice in one half and not
// at all in the other, which no plan can. Cut the hosts of a class into parts + 1 equal shares: a
// stage that takes more than m shares counts m. What a plan's stages take is more than the shares
// that it counts, and at most parts + 1, so no plan counts more than `parts` (a Chvatal-Gomory cut
// of the class's limit). Rules of this kind have prices as hosts have: whoever takes more than m
// shares pays m times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <harmonics/plan/planner.h>

#include "host_prices.h"
#include "stage_graph.h"
#include "work_budget.h"

namespace harmonics::inline in_plan {

/// What a stage on so many hosts counts, of a class with `capacity` hosts.
[[nodiscard]] constexpr std::size_t shares_counted(std::size_t hosts, std::size_t parts,
                                                   std::size_t capacity) {
  return hosts == 0 ? 0 : ((parts + 1) * hosts - 1) / capacity;
}

/// Refutes periods by prices of hosts and of shares; the rules that helped stay for the next
/// period. Not thread safe.
class SharePricing {
 public:
  /// Keeps references to both.
  SharePricing(std::span<const std::uint16_t> capacity, WorkBudget& budget)
      : capacity_(capacity), budget_(budget) {}

  /// A proof that no path keeps to the hosts of a graph of this period, if one was found.
  [[nodiscard]] std::optional<PeriodProof> refute(const StageGraph& graph, double period_s);

 private:
  std::span<const std::uint16_t> capacity_;
  WorkBudget& budget_;
  std::vector<double> price_;      // per class, then per rule
  std::vector<SharePrice> rules_;  // their prices are in price_
};

}  // namespace harmonics::inline in_plan
