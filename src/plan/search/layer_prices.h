// Bounds for replicated stages where layers are few beside hosts: prices on layers.
//
// Prices per host (host_prices.h) let hosts be used in any part, although a class holds whole
// stages only, few of them where a stage takes hundreds of hosts. So turn it around: give every
// layer a price (of any sign), all together 1. Whatever stages the hosts of a class can hold at
// once, they earn no more than an amount that earning_table.h finds; where these amounts together
// are less than 1, no plan keeps the period. This is the bound of the relaxation whose classes hold
// mixtures of whole sets of stages (a Lagrangian decomposition, Guignard and Kim 1987), never worse
// than that of prices per host. Good prices are found by subgradient steps (Polyak 1969).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <harmonics/plan/planner.h>

#include "earning_table.h"
#include "stage_graph.h"
#include "work_budget.h"

namespace harmonics::inline in_plan {

/// Prices the layers for one period after another, each time from the last prices on. Not thread
/// safe.
class LayerPricing {
 public:
  /// Keeps references to both.
  LayerPricing(std::span<const std::uint16_t> capacity, WorkBudget& budget)
      : capacity_(capacity), budget_(budget) {}

  /// Whether a part of the budget is enough to price the layers of this graph.
  [[nodiscard]] bool affords(const StageGraph& graph) const;

  /// A proof that no plan has the period of this graph, if one was found. The graph holds all
  /// stages (not `only_best`), so that the proof does too. The first prices are made from prices
  /// per host, if there are any.
  [[nodiscard]] std::optional<LayerProof> refute(const StageGraph& graph, double period_s,
                                                 std::span<const double> host_price);
  /// About the least period that prices on layers do not refute; 0: unknown.
  [[nodiscard]] double guess_s() const { return guess_s_; }

  /// Earnings under the last prices, which a search in this graph may go by.
  [[nodiscard]] const EarningTable& earnings_for(const StageGraph& graph);

 private:
  [[nodiscard]] std::vector<double> rough_prices(const StageGraph& graph,
                                                 std::size_t hosts_per_unit);

  std::span<const std::uint16_t> capacity_;
  WorkBudget& budget_;
  std::vector<double> price_;  // per layer
  double guess_s_ = 0;
  EarningTable table_;
};

}  // namespace harmonics::inline in_plan
