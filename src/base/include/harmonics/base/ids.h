// Strong ids: a step number cannot be passed where a micro-batch number is wanted.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace harmonics::inline in_base {

/// A number with a meaning: `using StepId = Id<struct StepTag>;`.
template <typename Tag, typename Number = std::uint64_t>
struct Id {
  Number value{};
  auto operator<=>(const Id&) const = default;
};

}  // namespace harmonics::inline in_base

template <typename Tag, typename Number>
struct std::hash<harmonics::Id<Tag, Number>> {
  std::size_t operator()(const harmonics::Id<Tag, Number>& id) const noexcept {
    return std::hash<Number>{}(id.value);
  }
};
