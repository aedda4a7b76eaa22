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

/// Where a layer's parameters have the weight and the bias of a product.
struct FusedPlaces {
  std::size_t weight = 0;
  std::size_t bias = 1;
};

/// x·wᵀ + b in 16 bits, where b has and learns in 32; undefined as above, and without a bias.
[[nodiscard]] at::Tensor fused_linear(const at::Tensor& x, const LayerCall& call,
                                      FusedPlaces places);

}  // namespace harmonics::inline in_runtime
