#include <ATen/ATen.h>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

LayerForward make_batch_norm(const LayerQuery& q) {
  return [eps = q.number("eps"), momentum = q.number("momentum")](const LayerCall& call) {
    // A GPU reads and writes 16 bits here but computes in those of the parameters.
    const at::Tensor x = call.inputs[0].is_cuda() ? call.inputs[0] : as_parameter(call);
    return at::batch_norm(x, call.parameters[0], call.parameters[1], call.parameters[2],
                          call.parameters[3], call.training, momentum, eps,
                          /*cudnn_enabled=*/true);
  };
}

LayerForward make_layer_norm(const LayerQuery& q) {
  return [eps = q.number("eps")](const LayerCall& call) {
    return at::layer_norm(as_parameter(call), call.parameters[0].sizes(), call.parameters[0],
                          call.parameters[1], eps);
  };
}

}  // namespace

LayerKernels norm_kernels() {
  return {{"batch_norm", make_batch_norm}, {"layer_norm", make_layer_norm}};
}

}  // namespace harmonics::inline in_runtime
