// Gradient sums in a fixed order (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace harmonics::inline in_runtime {

/// `count` aliases of `value`, one per use. Backward adds the uses' gradients from the first to the
/// last, ((g0 + g1) + g2) + …, wherever they were computed; autograd alone would add them in the
/// order in which they happen to arrive, which differs between a whole graph and its parts.
std::vector<at::Tensor> fan_out(const at::Tensor& value, std::size_t count);

}  // namespace harmonics::inline in_runtime
