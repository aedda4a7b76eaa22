// Dtypes and axes inside layers (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include <harmonics/runtime/torch_layer.h>
#include <harmonics/tensor/torch.h>

#include "torch/fused_layers.h"

namespace harmonics::inline in_runtime {

/// Casting to the dtype a tensor already has is free.
inline at::Tensor as(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.scalar_type() == dtype ? tensor : tensor.to(dtype);
}

/// 16 bits become 32; the rest stays as it is.
inline at::Tensor in_full(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kHalf || type == at::kBFloat16 ? tensor.to(at::kFloat) : tensor;
}

/// Norms and losses run in the precision of their parameters, never in 16 bits.
inline at::Tensor as_parameter(const LayerCall& call) {
  return as(call.inputs[0], call.parameters[0].scalar_type());
}

/// A parameter in the dtype of matrix products.
inline at::Tensor matrix_parameter(const LayerCall& call, std::size_t index) {
  if (index < call.shorts.size() && call.shorts[index].defined()) return call.shorts[index];
  return as(call.parameters[index], call.compute);
}

/// The same; undefined where the layer has none at this place.
inline at::Tensor optional_parameter(const LayerCall& call, std::size_t index) {
  return call.parameters.size() > index ? matrix_parameter(call, index) : at::Tensor();
}

/// x·wᵀ + b in the dtype for matrix products, with the parameters at these places; `bias` may be
/// beyond the last, for none.
inline at::Tensor linear_of(const LayerCall& call, const at::Tensor& x, std::size_t weight,
                            std::size_t bias) {
  if (x.is_cuda()) {
    if (at::Tensor y = fused_linear(x, call, {weight, bias}); y.defined()) return y;
  }
  return at::linear(x, matrix_parameter(call, weight), optional_parameter(call, bias));
}

/// The libtorch dtype of a dtype's name.
inline at::ScalarType scalar_type_of(std::string_view name) {
  return to_torch(Tensor::zeros({1}, dtype_from_name(name).value())).scalar_type();
}

/// An axis of a sample as an axis of a batch; below 0 it counts from the last in both.
inline std::int64_t batch_axis(std::int64_t axis) { return axis < 0 ? axis : axis + 1; }

/// The axes of the widest of several tensors.
inline std::int64_t most_axes(std::span<const at::Tensor> tensors) {
  std::int64_t most = 0;
  for (const at::Tensor& tensor : tensors) most = std::max(most, tensor.dim());
  return most;
}

/// The tensor with `axes` axes: those of a sample stand last, the batch axis stays first.
inline at::Tensor aligned(const at::Tensor& tensor, std::int64_t axes) {
  if (tensor.dim() == axes) return tensor;
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin() + 1, static_cast<std::size_t>(axes - tensor.dim()), 1);
  return tensor.reshape(sizes);
}

/// One number for both axes of an image, or two.
inline std::vector<std::int64_t> both_axes(const LayerQuery& q, std::string_view name) {
  Shape value = q.list(name);
  if (value.size() == 1) value.push_back(value[0]);
  return value;
}

}  // namespace harmonics::inline in_runtime
