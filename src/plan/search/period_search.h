// The least period that a plan can have, with a lower bound.
//
// The period of a plan is the time of one of its stages, so it is one of finitely many candidates.
// First the relaxation is bisected down to the period below which it proves that there is no plan;
// then the candidates from there to the best known plan are tried by path searches of growing
// width, until none is left or the budget is spent.
#pragma once

#include <optional>
#include <vector>

#include <harmonics/plan/placement.h>
#include <harmonics/plan/planner.h>

#include "stage_graph.h"
#include "work_budget.h"

namespace harmonics::inline in_plan {

/// A period that stands for "any": larger than every finite stage time.
inline constexpr double kAnyPeriod = 1e300;

struct PeriodResult {
  /// Empty when no plan was found.
  Placement placement;
  double period_s = 0;
  /// No plan has a smaller period.
  double lower_bound_s = 0;
  /// The period is the least one; without a placement: there is no plan at all.
  bool proven = false;
  std::optional<PeriodProof> proof;
  /// Of a longer period, where prices on layers show more.
  std::optional<LayerProof> layer_proof;
};

struct PeriodQuestion {
  const StageGraphBuilder& builder;
  bool replicate = false;
  /// A plan that is known to be possible; may be empty.
  Placement known = {};
};

[[nodiscard]] PeriodResult find_least_period(const PeriodQuestion& question, WorkBudget& budget);

/// Whether the relaxation shows that no plan with one host per stage keeps this period. False where
/// it cannot tell.
[[nodiscard]] bool relaxation_rules_out(const StageGraphBuilder& builder, double period_s,
                                        WorkBudget& budget);

/// The stages of a path.
[[nodiscard]] Placement placement_of(const StageGraph& graph, std::span<const std::uint32_t> path);

}  // namespace harmonics::inline in_plan
