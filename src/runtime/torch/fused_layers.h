// Layers that libtorch computes in several kernels, as one or two of our own (private to runtime).
//
// A GPU that computes in 16 bits spends its time on moving them: batch norm with ReLU, a sum with
// ReLU, layer norm and what a bias learns read and write each number once here. Their numbers are
// computed in float32, as libtorch's are, and every sum has one order.
#pragma once

#include <string_view>

#include <harmonics/runtime/torch_layer.h>

namespace harmonics::inline in_runtime {

/// The layer and its activation (empty for none) as one; what it returns is undefined for tensors
/// that it cannot take, and it is empty for layers that have no such form, or where this build has
/// no CUDA.
[[nodiscard]] LayerForward make_fused_forward(const LayerQuery& query, std::string_view activation);

/// x·wᵀ + b where x and w have 16 bits and b has 32, and learns in 32; undefined as above.
[[nodiscard]] at::Tensor fused_linear(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias);

}  // namespace harmonics::inline in_runtime
