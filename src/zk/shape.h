// What a linear map's extents must be (private to custody).
#pragma once

#include <cstddef>
#include <string>

#include <harmonics/zk/zk.h>

namespace harmonics::inline in_zk {

/// Of a 3x3 kernel.
inline constexpr std::size_t kTaps = 9;

/// Calls visit(source, target) for every pixel at which a tap reads inside the picture.
template <typename Visit>
void for_each_shift(const LinearShape& shape, std::size_t tap, Visit&& visit) {
  const auto height = static_cast<std::ptrdiff_t>(shape.height);
  const auto width = static_cast<std::ptrdiff_t>(shape.width);
  const auto down = static_cast<std::ptrdiff_t>(tap / 3) - 1;
  const auto right = static_cast<std::ptrdiff_t>(tap % 3) - 1;
  for (std::ptrdiff_t y = 0; y < height; ++y) {
    if (y + down < 0 || y + down >= height) continue;
    for (std::ptrdiff_t x = 0; x < width; ++x) {
      if (x + right < 0 || x + right >= width) continue;
      visit(static_cast<std::size_t>((y + down) * width + x + right),
            static_cast<std::size_t>(y * width + x));
    }
  }
}

/// Why a map of this shape cannot be proven; empty when it can.
[[nodiscard]] std::string shape_problem(const LinearShape& shape);
/// An Error (kInvalidArgument) when a tensor's number of elements does not fit the shape.
void require_sizes(const LinearShape& shape, std::size_t input, std::size_t weights,
                   std::size_t output);

}  // namespace harmonics::inline in_zk
