// How far the noise of the measurements reaches into a plan: which cuts would lie elsewhere if the
// layers were measured again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/plan/placement.h>
#include <harmonics/plan/problem.h>

namespace harmonics::inline in_plan {

/// A cut at an end of the slowest stage.
struct NoisyCut {
  /// Behind this layer, counted from 1; and of the stage in front of it, from 0.
  std::size_t behind_layer = 0;
  std::size_t stage = 0;
  /// How far the times of the stages on both sides may be off, as shares of them.
  double spread_before = 0;
  double spread_after = 0;
  /// Layers by which it may move; never 0.
  std::size_t may_move_by = 0;
};

/// Of the cuts at the ends of the slowest stage those that lie elsewhere when one of their two
/// stages is as slow as its spread allows and the other as fast: where the larger of both times is
/// least. Layers' noise is independent: that of a stage is the root of the sum of their squares.
/// Nothing where no spread is known. Pure; any thread.
[[nodiscard]] std::vector<NoisyCut> noisy_cuts(const PlanProblem& problem,
                                               const CostOptions& options,
                                               const Placement& placement);

/// A line for each cut, and the same for programs.
[[nodiscard]] std::string noise_to_text(const std::vector<NoisyCut>& cuts);
[[nodiscard]] Json noise_to_json(const std::vector<NoisyCut>& cuts);

}  // namespace harmonics::inline in_plan
