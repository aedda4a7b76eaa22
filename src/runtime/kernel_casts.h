// Dtypes inside layers (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include <harmonics/runtime/torch_layer.h>

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

/// A parameter for a matrix product; undefined where the layer has none at this place.
inline at::Tensor optional_parameter(const LayerCall& call, std::size_t index) {
  return call.parameters.size() > index ? as(call.parameters[index], call.compute) : at::Tensor();
}

/// One number for both axes of an image, or two.
inline std::vector<std::int64_t> both_axes(const LayerQuery& q, std::string_view name) {
  Shape value = q.list(name);
  if (value.size() == 1) value.push_back(value[0]);
  return value;
}

}  // namespace harmonics::inline in_runtime
