#include <ATen/ATen.h>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

LayerForward make_dropout(const LayerQuery& q) {
  return [p = q.number("p")](const LayerCall& call) {
    return call.training && p > 0 ? counter_dropout(call.inputs[0], p, call)
                                  : at::alias(call.inputs[0]);
  };
}

LayerForward make_add(const LayerQuery&) {
  return [](const LayerCall& call) {
    at::Tensor sum = call.inputs[0];
    for (std::size_t i = 1; i < call.inputs.size(); ++i) sum = sum + call.inputs[i];
    return sum;
  };
}

LayerForward make_mul(const LayerQuery&) {
  return [](const LayerCall& call) {
    at::Tensor product = call.inputs[0];
    for (std::size_t i = 1; i < call.inputs.size(); ++i) product = product * call.inputs[i];
    return product;
  };
}

}  // namespace

LayerKernels element_kernels() {
  return {{"dropout", make_dropout}, {"add", make_add}, {"mul", make_mul}};
}

}  // namespace harmonics::inline in_runtime
