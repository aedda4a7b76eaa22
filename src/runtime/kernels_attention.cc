#include <ATen/ATen.h>

#include <cmath>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// Multi-head self-attention over {batch, length, width}; heads are contiguous slices of the width.
LayerForward make_attention(const LayerQuery& q) {
  const std::int64_t heads = q.integer("heads");
  const bool causal = q.integer("causal") != 0;
  const bool project = q.integer("project") != 0;
  return [heads, causal, project](const LayerCall& call) {
    const at::Tensor x = as(call.inputs[0], call.compute);
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const at::Tensor qkv =
        at::linear(x, as(call.parameters[0], call.compute), as(call.parameters[1], call.compute))
            .reshape({batch, length, 3, heads, width / heads})
            .permute({2, 0, 3, 1, 4});
    const at::Tensor query = qkv[0], key = qkv[1], value = qkv[2];
    const auto joined = [&](const at::Tensor& mixed) {
      const at::Tensor rows = mixed.transpose(1, 2).reshape({batch, length, width});
      return project ? at::linear(rows, as(call.parameters[2], call.compute),
                                  optional_parameter(call, 3))
                     : rows;
    };
#if TORCH_VERSION_MAJOR >= 2
    // One fused kernel on a GPU; its softmax runs in float32.
    if (x.is_cuda())
      return joined(at::scaled_dot_product_attention(query, key, value, {}, 0.0, causal));
#endif
    const double scale = 1.0 / std::sqrt(static_cast<double>(width / heads));
    at::Tensor scores = at::matmul(query * scale, key.transpose(-2, -1));
    if (causal) {
      const at::Tensor future =
          at::ones({length, length}, x.options().dtype(at::kBool)).triu(/*diagonal=*/1);
      scores = scores.masked_fill(future, -INFINITY);
    }
    const at::ScalarType exact = call.parameters[0].scalar_type();
    const at::Tensor weights = as(at::softmax(as(scores, exact), -1), call.compute);
    return joined(at::matmul(weights, value));
  };
}

}  // namespace

LayerKernels attention_kernels() { return {{"attention", make_attention}}; }

}  // namespace harmonics::inline in_runtime
