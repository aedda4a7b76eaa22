#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstring>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// to = from * factor + summand; both may be the same.
void scale_and_shift(const float* from, float* to, std::int64_t count, float factor,
                     float summand) {
  using Four = float __attribute__((vector_size(16)));
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    Four value;
    std::memcpy(&value, from + i, sizeof value);
    value = value * factor + summand;
    std::memcpy(to + i, &value, sizeof value);
  }
  for (; i < count; ++i) to[i] = from[i] * factor + summand;
}

// In inference a factor and a summand for each channel, which are kept; over the input where nobody
// else needs it.
at::Tensor kept_batch_norm(const LayerCall& call, double eps) {
  if (call.kept->empty()) {
    const auto& p = call.parameters;
    call.kept->push_back((p[0] / at::sqrt(p[3] + eps)).contiguous());
    call.kept->push_back((p[1] - p[2] * call.kept->front()).contiguous());
  }
  const at::Tensor x = call.inputs[0].contiguous();
  const bool spare =
      call.inputs[0].use_count() == 2 && x.storage().use_count() == 1 && x.is_same(call.inputs[0]);
  at::Tensor y = spare ? x : at::empty_like(x);
  const std::int64_t channels = x.size(1), planes = x.size(0) * channels;
  const std::int64_t count = planes == 0 ? 0 : x.numel() / planes;
  const float* const from = x.data_ptr<float>();
  float* const to = y.data_ptr<float>();
  const float* const factors = call.kept->front().data_ptr<float>();
  const float* const summands = call.kept->back().data_ptr<float>();
  at::parallel_for(0, planes, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      scale_and_shift(from + i * count, to + i * count, count, factors[i % channels],
                      summands[i % channels]);
    }
  });
  return y;
}

bool keeps_batch_norm(const LayerCall& call) {
  return call.kept != nullptr && call.inputs[0].scalar_type() == at::kFloat &&
         call.parameters[0].scalar_type() == at::kFloat;
}

LayerForward make_batch_norm(const LayerQuery& q) {
  return [eps = q.number("eps"), momentum = q.number("momentum")](const LayerCall& call) {
    if (keeps_batch_norm(call)) return kept_batch_norm(call, eps);
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
