// Layers that slide a window over an image: convolutions and pools.
#include <harmonics/base/format.h>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

// Height and width after a window slides over {C, H, W}.
Shape window_output(const LayerQuery& q, const Shape& kernel, const Shape& stride,
                    const Shape& padding) {
  Shape out;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t size = q.inputs[0].shape[axis + 1] + 2 * padding[axis];
    if (size < kernel[axis]) {
      q.refuse(format("a window of {} does not fit in {} (with padding)", kernel[axis], size));
    }
    out.push_back((size - kernel[axis]) / stride[axis] + 1);
  }
  return out;
}

LayerShape infer_conv2d(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  const std::int64_t in = q.inputs[0].shape[0];
  const std::int64_t out = q.integer("out", 1);
  const std::int64_t groups = q.integer("groups", 1);
  if (in % groups != 0 || out % groups != 0) {
    q.refuse(format("groups={} must divide the input's {} and the output's {} channels", groups, in,
                    out));
  }
  const Shape kernel = pair_of(q, "kernel", 1);
  const Shape size = window_output(q, kernel, pair_of(q, "stride", 1), pair_of(q, "padding", 0));
  const std::int64_t fan_in = element_count({in / groups, kernel[0], kernel[1]});
  LayerShape result;
  result.output = {{out, size[0], size[1]}, q.inputs[0].dtype};
  result.parameters.push_back(
      {"weight", {out, in / groups, kernel[0], kernel[1]}, Init::kUniform, kaiming_bound(fan_in)});
  if (q.integer("bias") != 0) {
    result.parameters.push_back({"bias", {out}, Init::kUniform, kaiming_bound(fan_in)});
  }
  result.flops = 2.0 * elements(result.output.shape) * static_cast<double>(fan_in);
  return result;
}

LayerShape infer_pool(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  const Shape kernel = pair_of(q, "kernel", 1);
  const Shape stride = q.has("stride") ? pair_of(q, "stride", 1) : kernel;
  const Shape padding = pair_of(q, "padding", 0);
  if (2 * padding[0] > kernel[0] || 2 * padding[1] > kernel[1]) {
    q.refuse("padding must be at most half of the kernel");
  }
  const Shape size = window_output(q, kernel, stride, padding);
  LayerShape result;
  result.output = {{q.inputs[0].shape[0], size[0], size[1]}, q.inputs[0].dtype};
  result.flops = elements(result.output.shape) * static_cast<double>(kernel[0] * kernel[1]);
  return result;
}

LayerShape infer_adaptive_pool(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  const Shape size = pair_of(q, "size", 1);
  LayerShape result;
  result.output = {{q.inputs[0].shape[0], size[0], size[1]}, q.inputs[0].dtype};
  result.flops = elements(q.inputs[0].shape);
  return result;
}

}  // namespace

std::vector<LayerType> window_layer_types() {
  const std::vector<AttributeSpec> pool = {required("kernel"), optional("stride"),
                                           with_default("padding", std::int64_t{0})};
  return {
      {"conv2d",
       {required("out"), required("kernel"), with_default("stride", std::int64_t{1}),
        with_default("padding", std::int64_t{0}), with_default("groups", std::int64_t{1}),
        with_default("bias", std::int64_t{1})},
       1,
       1,
       infer_conv2d},
      {"max_pool", pool, 1, 1, infer_pool},
      {"avg_pool", pool, 1, 1, infer_pool},
      {"adaptive_avg_pool", {required("size")}, 1, 1, infer_adaptive_pool},
      {"adaptive_max_pool", {required("size")}, 1, 1, infer_adaptive_pool},
  };
}

}  // namespace harmonics::inline in_graph
