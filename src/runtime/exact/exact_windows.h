// Convolutions, and the windows of pools (private to runtime).
#pragma once

#include "exact_operation.h"

namespace harmonics::inline in_runtime {

/// conv2d in every form; `output` is {channels, height, width}.
[[nodiscard]] ExactOperationPtr make_exact_convolution(const LayerQuery& query,
                                                       const Shape& output);

/// The part of a window that lies inside the image along one axis, and how many places count.
struct ExactReach {
  std::int64_t first, end, pace, counted;
};

/// The windows of a pool, adaptive or not, whose output is {channels, height, width}.
struct ExactReaches {
  ExactReaches(const LayerQuery& query, const Shape& output);
  std::vector<ExactReach> rows, columns;
};

}  // namespace harmonics::inline in_runtime
