#include <ATen/ATen.h>

#include <algorithm>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// libtorch multiplies along one axis at a time: from the last, so that the
// others keep their place.
at::Tensor product_over(at::Tensor x, std::vector<std::int64_t> axes, bool keep) {
  std::ranges::sort(axes, std::greater<>());
  for (const std::int64_t axis : axes) x = x.prod(axis, keep);
  return x;
}

LayerForward make_reduce(const LayerQuery& q) {
  const Shape given = q.has("axes") ? q.list("axes") : Shape();
  return [op = q.text("op"), given, keep = q.integer("keep") != 0](const LayerCall& call) {
    const at::Tensor x = in_full(call.inputs[0]);
    std::vector<std::int64_t> axes;
    for (const std::int64_t axis : given) axes.push_back(axis < 0 ? axis + x.dim() : axis + 1);
    for (std::int64_t axis = 1; given.empty() && axis < x.dim(); ++axis) axes.push_back(axis);
    std::ranges::sort(axes);
    axes.erase(std::ranges::unique(axes).begin(), axes.end());
    // A sample that is one number: there is nothing to go over.
    if (axes.empty()) return op == "l2" ? x.abs() : at::alias(x);
    if (op == "sum") return x.sum(axes, keep);
    if (op == "mean") return x.mean(axes, keep);
    if (op == "max") return x.amax(axes, keep);
    if (op == "min") return x.amin(axes, keep);
    if (op == "prod") return product_over(x, axes, keep);
    if (op == "l2") return x.norm(2, axes, keep);
    return at::logsumexp(x, axes, keep);
  };
}

LayerForward make_matmul(const LayerQuery& q) {
  return [flip_a = q.integer("transpose_a") != 0,
          flip_b = q.integer("transpose_b") != 0](const LayerCall& call) {
    const std::int64_t axes = most_axes(call.inputs);
    // Without parameters `compute` does not tell of float64.
    const at::ScalarType own = call.inputs[0].scalar_type();
    const at::ScalarType compute = own == at::kDouble ? own : call.compute;
    const at::Tensor a = aligned(as(call.inputs[0], compute), axes);
    const at::Tensor b = aligned(as(call.inputs[1], compute), axes);
    return at::matmul(flip_a ? a.transpose(-2, -1) : a, flip_b ? b.transpose(-2, -1) : b);
  };
}

}  // namespace

LayerKernels sum_kernels() { return {{"reduce", make_reduce}, {"matmul", make_matmul}}; }

}  // namespace harmonics::inline in_runtime
