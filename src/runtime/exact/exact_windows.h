// Convolutions beside pools (private to runtime).
#pragma once

#include "exact_operation.h"

namespace harmonics::inline in_runtime {

/// conv2d in every form; `output` is {channels, height, width}.
[[nodiscard]] ExactOperationPtr make_exact_convolution(const LayerQuery& query,
                                                       const Shape& output);

}  // namespace harmonics::inline in_runtime
