#include <ATen/ATen.h>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

LayerForward make_embedding(const LayerQuery&) {
  return [](const LayerCall& call) {
    return at::embedding(call.parameters[0], as(call.inputs[0], at::kLong));
  };
}

LayerForward make_tokens(const LayerQuery&) {
  return [](const LayerCall& call) { return call.inputs[0].flatten(2).transpose(1, 2); };
}

LayerForward make_class_token(const LayerQuery&) {
  return [](const LayerCall& call) {
    const at::Tensor& x = call.inputs[0];
    const at::Tensor token =
        as(call.parameters[0], x.scalar_type()).view({1, 1, -1}).expand({x.size(0), 1, x.size(2)});
    return at::cat({token, x}, 1);
  };
}

LayerForward make_position(const LayerQuery& q) {
  return [rows = q.has("rows"), offset = q.integer_or("offset", 0)](const LayerCall& call) {
    const at::Tensor& x = call.inputs[0];
    const at::Tensor& all = call.parameters[0];
    return x + as(rows ? all.narrow(0, offset, x.size(1)) : all, x.scalar_type());
  };
}

LayerForward make_select(const LayerQuery& q) {
  return [index = q.integer("index")](const LayerCall& call) {
    return call.inputs[0].select(1, index);
  };
}

// With a mask: the sum of the rows that count, divided by their number (0 for none).
LayerForward make_mean(const LayerQuery&) {
  return [](const LayerCall& call) {
    if (call.inputs.size() == 1) return call.inputs[0].mean(1);
    const at::Tensor x = in_full(call.inputs[0]);
    const at::Tensor counts = call.inputs[1].ne(0).to(x.scalar_type()).unsqueeze(-1);
    return (x * counts).sum(1) / counts.sum(1).clamp_min(1e-9);
  };
}

}  // namespace

LayerKernels token_kernels() {
  return {{"embedding", make_embedding}, {"tokens", make_tokens}, {"class_token", make_class_token},
          {"position", make_position},   {"select", make_select}, {"mean", make_mean}};
}

}  // namespace harmonics::inline in_runtime
