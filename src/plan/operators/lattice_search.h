// The best chain of ideals: a dynamic programme over a lattice that leaves out whatever cannot beat
// the best plan known.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <harmonics/plan/operator_plan.h>

#include "ideal_lattice.h"
#include "search/work_budget.h"
#include "unit_graph.h"

namespace harmonics::inline in_plan {

/// Periods that differ by a smaller share are the same but for rounding.
inline constexpr double kSamePeriod = 1e-9;

struct UnitStage {
  std::size_t device = 0;
  std::vector<Unit> units;
};

struct LatticeQuestion {
  const UnitGraph& units;
  std::span<const DeviceLimits> devices;
  Overlap overlap = Overlap::kFull;
  /// Prices as in OperatorLoadProof.
  std::span<const double> price;
  /// Only plans below this period are looked for.
  double below_s = 0;
};

struct LatticeAnswer {
  /// Empty: there is no plan below the period, or none was found.
  std::vector<UnitStage> stages;
  double period_s = 0;
  /// The search came to its end: no chain of this lattice is better.
  bool whole = false;
};

[[nodiscard]] LatticeAnswer search_lattice(const IdealLattice& lattice,
                                           const LatticeQuestion& question, WorkBudget& budget);

}  // namespace harmonics::inline in_plan
