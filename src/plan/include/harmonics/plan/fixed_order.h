// Where to cut when it is settled which hosts run the stages, and in which order.
#pragma once

#include <cstddef>
#include <span>

#include <harmonics/plan/cost_model.h>
#include <harmonics/plan/placement.h>

namespace harmonics::inline in_plan {

/// One stage per entry of `classes`, in that order, each with at least one layer, such that the
/// slowest is as fast as any cut can make it. Empty when memory or network allow no cut, or there
/// are fewer layers than stages. A pure function; its work grows with stages times layers squared.
[[nodiscard]] Placement place_in_order(const CostModel& costs,
                                       std::span<const std::size_t> classes);

}  // namespace harmonics::inline in_plan
