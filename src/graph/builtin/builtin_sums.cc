// Layers that add up: over axes, and products of matrices.
#include <algorithm>
#include <array>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

constexpr std::array<std::string_view, 7> kReductions = {"sum",  "mean", "max",        "min",
                                                         "prod", "l2",   "log_sum_exp"};

LayerShape infer_reduce(const LayerQuery& q) {
  if (q.text("op") != "max" && q.text("op") != "min") need_floating(q);
  if (std::ranges::find(kReductions, q.text("op")) == kReductions.end()) {
    q.refuse(
        format("'op' must be one of sum, mean, max, min, prod, l2 and "
               "log_sum_exp, not {}",
               q.text("op")));
  }
  const Shape& in = q.inputs[0].shape;
  std::vector<bool> goes(in.size(), !q.has("axes"));
  if (q.has("axes")) {
    for (const std::int64_t axis : q.list("axes")) goes[sample_axis(q, "axes", axis)] = true;
  }
  LayerShape result{{{}, q.inputs[0].dtype}, {}, elements(in)};
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (!goes[axis]) {
      result.output.shape.push_back(in[axis]);
    } else if (q.integer("keep") != 0) {
      result.output.shape.push_back(1);
    }
  }
  return result;
}

LayerShape infer_matmul(const LayerQuery& q) {
  need_floating(q);
  Shape a = q.inputs[0].shape, b = q.inputs[1].shape;
  if (a.size() < 2 || b.size() < 2 || q.inputs[0].dtype != q.inputs[1].dtype) {
    q.refuse("needs two matrices {…, n, k} and {…, k, m} of one dtype");
  }
  if (q.integer("transpose_a") != 0) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (q.integer("transpose_b") != 0) std::swap(b[b.size() - 1], b[b.size() - 2]);
  const std::int64_t rows = a[a.size() - 2], inner = a.back(), columns = b.back();
  const auto shape = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (inner != b[b.size() - 2] || !shape) {
    q.refuse(format("the matrices do not fit: {} and {}", shape_text(a), shape_text(b)));
  }
  LayerShape result{{*shape, q.inputs[0].dtype}, {}, 0};
  result.output.shape.insert(result.output.shape.end(), {rows, columns});
  result.flops = 2.0 * elements(result.output.shape) * static_cast<double>(inner);
  return result;
}

}  // namespace

std::vector<LayerType> sum_layer_types() {
  return {
      {"reduce",
       {required("op"), optional("axes"), with_default("keep", std::int64_t{1})},
       1,
       1,
       infer_reduce},
      {"matmul",
       {with_default("transpose_a", std::int64_t{0}), with_default("transpose_b", std::int64_t{0})},
       2,
       2,
       infer_matmul},
  };
}

}  // namespace harmonics::inline in_graph
