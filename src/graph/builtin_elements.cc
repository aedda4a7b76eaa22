// Layers that look at each element alone.
#include <harmonics/base/format.h>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

LayerShape infer_dropout(const LayerQuery& q) {
  need_floating(q);
  const double p = q.number("p");
  if (!(p >= 0 && p < 1)) q.refuse(format("'p' must be at least 0 and below 1, not {}", p));
  return {q.inputs[0], {}, elements(q.inputs[0].shape)};
}

LayerShape infer_elementwise(const LayerQuery& q) {
  need_floating(q);
  for (const TensorSpec& input : q.inputs) {
    if (input != q.inputs[0]) {
      q.refuse(format("all inputs must agree, but {} is not {}", spec_text(input),
                      spec_text(q.inputs[0])));
    }
  }
  return {q.inputs[0], {}, elements(q.inputs[0].shape) * static_cast<double>(q.inputs.size() - 1)};
}

}  // namespace

std::vector<LayerType> element_layer_types() {
  return {
      {"dropout", {with_default("p", 0.5)}, 1, 1, infer_dropout},
      {"add", {}, 2, kManyInputs, infer_elementwise},
      {"mul", {}, 2, kManyInputs, infer_elementwise},
  };
}

}  // namespace harmonics::inline in_graph
