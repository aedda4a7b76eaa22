#include <ATen/ATen.h>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

LayerForward make_flatten(const LayerQuery&) {
  return [](const LayerCall& call) { return call.inputs[0].flatten(1); };
}

LayerForward make_reshape(const LayerQuery& q) {
  return [shape = q.list("shape")](const LayerCall& call) {
    std::vector<std::int64_t> whole = {call.inputs[0].size(0)};
    whole.insert(whole.end(), shape.begin(), shape.end());
    return call.inputs[0].reshape(whole);
  };
}

LayerForward make_concat(const LayerQuery& q) {
  return [axis = q.integer("axis") + 1](const LayerCall& call) {
    return at::cat(std::vector<at::Tensor>(call.inputs.begin(), call.inputs.end()), axis);
  };
}

LayerForward make_identity(const LayerQuery&) {
  return [](const LayerCall& call) { return at::alias(call.inputs[0]); };
}

}  // namespace

LayerKernels shape_kernels() {
  return {{"flatten", make_flatten},
          {"reshape", make_reshape},
          {"concat", make_concat},
          {"identity", make_identity}};
}

}  // namespace harmonics::inline in_runtime
