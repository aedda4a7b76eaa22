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

LayerForward make_group_norm(const LayerQuery& q) {
  return [groups = q.integer("groups"), eps = q.number("eps")](const LayerCall& call) {
    return at::group_norm(as_parameter(call), groups, call.parameters[0], call.parameters[1], eps);
  };
}

LayerForward make_instance_norm(const LayerQuery& q) {
  return [eps = q.number("eps")](const LayerCall& call) {
    return at::instance_norm(as_parameter(call), call.parameters[0], call.parameters[1], {}, {},
                             /*use_input_stats=*/true, /*momentum=*/0, eps,
                             /*cudnn_enabled=*/true);
  };
}

// x / (k + alpha / size * the squares of `size` channels)^beta; beyond the channels lie zeros.
LayerForward make_local_response_norm(const LayerQuery& q) {
  return [size = q.integer("size"), alpha = q.number("alpha"), beta = q.number("beta"),
          k = q.number("k")](const LayerCall& call) {
    const at::Tensor x = in_full(call.inputs[0]);
    const std::int64_t before = (size - 1) / 2;
    const at::Tensor squares =
        at::constant_pad_nd(x * x, {0, 0, 0, 0, before, size - 1 - before}).unsqueeze(1);
    const at::Tensor mean = at::avg_pool3d(squares, {size, 1, 1}, {1, 1, 1}).squeeze(1);
    return x / (mean * alpha + k).pow(beta);
  };
}

// As Hugging Face's LlamaRMSNorm computes it, and its bits: weight * (x * rsqrt(mean(x^2) + eps)).
LayerForward make_rms_norm(const LayerQuery& q) {
  return [eps = q.number("eps")](const LayerCall& call) {
    const at::Tensor x = as_parameter(call);
    return call.parameters[0] * (x * at::rsqrt(x.pow(2).mean(-1, /*keepdim=*/true) + eps));
  };
}

LayerForward make_normalize(const LayerQuery& q) {
  return [eps = q.number("eps")](const LayerCall& call) {
    const at::Tensor x = in_full(call.inputs[0]);
    return x / x.norm(2, {-1}, /*keepdim=*/true).clamp_min(eps).expand_as(x);
  };
}

}  // namespace

LayerKernels norm_kernels() {
  return {{"batch_norm", make_batch_norm},
          {"layer_norm", make_layer_norm},
          {"group_norm", make_group_norm},
          {"instance_norm", make_instance_norm},
          {"local_response_norm", make_local_response_norm},
          {"rms_norm", make_rms_norm},
          {"normalize", make_normalize}};
}

}  // namespace harmonics::inline in_runtime
