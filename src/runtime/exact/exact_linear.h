// x·wᵀ + b over the last axis, and its gradients (private to runtime): linear layers and the
// projections of attention.
#pragma once

#include <harmonics/tensor/tensor.h>

#include "exact_kernels.h"

namespace harmonics::inline in_runtime {

/// Each output is a chain over the inputs from the bias on, or from 0 where there is none
/// (undefined).
[[nodiscard]] Tensor linear_forward(const ExactKernels& kernels, const Tensor& x,
                                    const Tensor& weight, const Tensor& bias);
/// Chains over the outputs, from 0 on.
[[nodiscard]] Tensor linear_back(const ExactKernels& kernels, const Tensor& gradient,
                                 const Tensor& weight);
/// Chains over the rows, from what the gradients hold on.
void linear_gradients(const ExactKernels& kernels, const Tensor& x, const Tensor& gradient,
                      const Tensor& to_weight, const Tensor& to_bias);

}  // namespace harmonics::inline in_runtime
