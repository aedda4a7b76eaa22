#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

LayerForward make_linear(const LayerQuery& q) {
  const bool has_bias = q.integer("bias") != 0;
  return [has_bias](const LayerCall& call) {
    return linear_of(call, as(call.inputs[0], call.compute), 0,
                     has_bias ? 1 : call.parameters.size());
  };
}

}  // namespace

LayerKernels builtin_layers() {
  LayerKernels all = {{"linear", make_linear}};
  for (auto* theme : {window_kernels, norm_kernels, attention_kernels, token_kernels, shape_kernels,
                      element_kernels, function_kernels, sum_kernels, move_kernels, resize_kernels,
                      recurrent_kernels}) {
    all.merge(theme());
  }
  return all;
}

}  // namespace harmonics::inline in_runtime
