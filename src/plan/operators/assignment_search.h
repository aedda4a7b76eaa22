// Free splits: any operators on any host.
#pragma once

#include <span>
#include <vector>

#include "lattice_search.h"

namespace harmonics::inline in_plan {

/// Goes on from a plan (of any split; empty: none is known) and looks for better ones that need not
/// be contiguous. `whole`: all were looked at, or shown to be no better.
[[nodiscard]] LatticeAnswer search_assignments(const LatticeQuestion& question,
                                               std::span<const UnitStage> known,
                                               WorkBudget& budget);

}  // namespace harmonics::inline in_plan
