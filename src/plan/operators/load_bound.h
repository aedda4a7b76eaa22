// What no plan of an operator graph can go below, whatever its split: prices per host.
#pragma once

#include <span>
#include <vector>

#include "unit_graph.h"

namespace harmonics::inline in_plan {

/// The best prices that were found (see OperatorLoadProof); all hosts together cost 1.
[[nodiscard]] OperatorLoadProof bound_load(const UnitGraph& units,
                                           std::span<const DeviceLimits> devices);

/// What a unit costs where it costs least at these prices.
[[nodiscard]] double least_price(const UnitGraph& units, Unit unit, std::span<const double> price);

/// The unit that takes longest where it is fastest: no period is shorter.
[[nodiscard]] double longest_unit_s(const UnitGraph& units, std::span<const DeviceLimits> devices);

}  // namespace harmonics::inline in_plan
