// Layers that give numbers another order or shape and leave them as they are.
#include <algorithm>

#include <harmonics/base/format.h>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

LayerShape infer_flatten(const LayerQuery& q) {
  return {{{element_count(q.inputs[0].shape)}, q.inputs[0].dtype}, {}, 0};
}

LayerShape infer_reshape(const LayerQuery& q) {
  Shape shape = q.list("shape");
  const std::int64_t size = element_count(q.inputs[0].shape);
  std::int64_t known = 1;
  int unknown = 0;
  for (const std::int64_t axis : shape) {
    if (axis == -1) {
      ++unknown;
    } else if (axis < 0 || (axis != 0 && known > size / axis && size > 0)) {
      q.refuse(format("cannot be reshaped to {}", shape_text(shape)));
    } else {
      known *= axis;
    }
  }
  if (unknown == 1 && known > 0 && size % known == 0) {
    *std::find(shape.begin(), shape.end(), -1) = size / known;
  } else if (unknown != 0 || known != size) {
    q.refuse(format("cannot be reshaped to {}", shape_text(shape)));
  }
  return {{shape, q.inputs[0].dtype}, {}, 0};
}

LayerShape infer_concat(const LayerQuery& q) {
  const std::size_t rank = q.inputs[0].shape.size();
  const std::int64_t axis = q.integer("axis");
  if (rank == 0 || axis < 0 || axis >= static_cast<std::int64_t>(rank)) {
    q.refuse(format("axis={} is not an axis of the input (the batch axis does not count)", axis));
  }
  TensorSpec out = q.inputs[0];
  for (std::size_t i = 1; i < q.inputs.size(); ++i) {
    Shape rest = q.inputs[i].shape;
    if (rest.size() != rank || q.inputs[i].dtype != out.dtype) q.refuse("the inputs do not fit");
    const std::int64_t grow = rest[axis];
    rest[axis] = q.inputs[0].shape[axis];
    if (rest != q.inputs[0].shape) q.refuse(format("the inputs must agree outside axis {}", axis));
    out.shape[axis] += grow;
  }
  return {out, {}, 0};
}

LayerShape infer_identity(const LayerQuery& q) { return {q.inputs[0], {}, 0}; }

}  // namespace

std::vector<LayerType> shape_layer_types() {
  return {
      {"flatten", {}, 1, 1, infer_flatten},
      {"reshape", {required("shape")}, 1, 1, infer_reshape},
      {"concat", {with_default("axis", std::int64_t{0})}, 2, kManyInputs, infer_concat},
      {"identity", {}, 1, 1, infer_identity},
  };
}

}  // namespace harmonics::inline in_graph
