// What a linear map's extents must be (private to custody).
#pragma once

#include <cstddef>
#include <string>

#include <harmonics/zk/zk.h>

namespace harmonics::inline in_zk {

/// Where tap 0..8 of a 3x3 kernel looks, from the pixel that it writes.
struct TapOffset {
  std::ptrdiff_t y;
  std::ptrdiff_t x;
};
inline TapOffset tap_offset(std::size_t tap) {
  return {static_cast<std::ptrdiff_t>(tap / 3) - 1, static_cast<std::ptrdiff_t>(tap % 3) - 1};
}

/// Why a map of this shape cannot be proven; empty when it can.
[[nodiscard]] std::string shape_problem(const LinearShape& shape);
/// An Error (kInvalidArgument) when a tensor's number of elements does not fit the shape.
void require_sizes(const LinearShape& shape, std::size_t input, std::size_t weights,
                   std::size_t output);

}  // namespace harmonics::inline in_zk
