// Orders of a unit graph to cut like a chain.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <harmonics/base/random.h>

#include "lattice_search.h"
#include "unit_graph.h"

namespace harmonics::inline in_plan {

/// Orders that follow from the graph alone: as numbered, one branch after the other from either
/// end, and with as few bytes alive as can be seen from unit to unit.
[[nodiscard]] std::vector<std::vector<Unit>> plain_orders(const UnitGraph& units);

/// An order in which the stages of a plan stay together but for units that change places by chance:
/// `spread` stages up or down at the most.
[[nodiscard]] std::vector<Unit> order_near(const UnitGraph& units,
                                           std::span<const UnitStage> stages, double spread,
                                           Random& random);

}  // namespace harmonics::inline in_plan
