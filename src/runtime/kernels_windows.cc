#include <ATen/ATen.h>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

LayerForward make_conv2d(const LayerQuery& q) {
  const bool has_bias = q.integer("bias") != 0;
  const std::vector<std::int64_t> one = {1, 1};
  return [has_bias, one, stride = both_axes(q, "stride"), padding = both_axes(q, "padding"),
          groups = q.integer("groups")](const LayerCall& call) {
    return at::conv2d(as(call.inputs[0], call.compute), as(call.parameters[0], call.compute),
                      has_bias ? as(call.parameters[1], call.compute) : at::Tensor(), stride,
                      padding, one, groups);
  };
}

struct Window {
  std::vector<std::int64_t> kernel, stride, padding;
  explicit Window(const LayerQuery& q)
      : kernel(both_axes(q, "kernel")),
        stride(q.has("stride") ? both_axes(q, "stride") : kernel),
        padding(both_axes(q, "padding")) {}
};

LayerForward make_max_pool(const LayerQuery& q) {
  return [w = Window(q)](const LayerCall& call) {
    return at::max_pool2d(call.inputs[0], w.kernel, w.stride, w.padding);
  };
}

LayerForward make_avg_pool(const LayerQuery& q) {
  return [w = Window(q)](const LayerCall& call) {
    return at::avg_pool2d(call.inputs[0], w.kernel, w.stride, w.padding);
  };
}

LayerForward make_adaptive_avg_pool(const LayerQuery& q) {
  return [size = both_axes(q, "size")](const LayerCall& call) {
    return at::adaptive_avg_pool2d(call.inputs[0], size);
  };
}

LayerForward make_adaptive_max_pool(const LayerQuery& q) {
  return [size = both_axes(q, "size")](const LayerCall& call) {
    return std::get<0>(at::adaptive_max_pool2d(call.inputs[0], size));
  };
}

}  // namespace

LayerKernels window_kernels() {
  return {{"conv2d", make_conv2d},
          {"max_pool", make_max_pool},
          {"avg_pool", make_avg_pool},
          {"adaptive_avg_pool", make_adaptive_avg_pool},
          {"adaptive_max_pool", make_adaptive_max_pool}};
}

}  // namespace harmonics::inline in_runtime
