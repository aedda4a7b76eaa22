// The layers that ship with Harmonics, a file per theme. Shapes leave out the batch axis; start
// values follow what PyTorch's layers of the same name do.
//
// An attribute that a type gained after its first release is optional without a default here: the
// lines by which a checkpoint knows its layers spell every default.
#include <iterator>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

LayerShape infer_linear(const LayerQuery& q) {
  need_floating(q);
  if (q.inputs[0].shape.empty()) q.refuse("needs an input with at least one axis");
  const std::int64_t in = q.inputs[0].shape.back();
  const std::int64_t out = q.integer("out", 1);
  LayerShape result;
  result.output = q.inputs[0];
  result.output.shape.back() = out;
  result.parameters.push_back({"weight", {out, in}, Init::kUniform, kaiming_bound(in)});
  if (q.integer("bias") != 0) {
    result.parameters.push_back({"bias", {out}, Init::kUniform, kaiming_bound(in)});
  }
  result.flops = 2.0 * elements(result.output.shape) * static_cast<double>(in);
  return result;
}

}  // namespace

std::vector<LayerType> builtin_layer_types() {
  std::vector<LayerType> types = {
      {"linear", {optional("out"), with_default("bias", std::int64_t{1})}, 1, 1, infer_linear}};
  for (auto* theme :
       {window_layer_types, norm_layer_types, attention_layer_types, token_layer_types,
        shape_layer_types, element_layer_types, function_layer_types, sum_layer_types,
        move_layer_types, recurrent_layer_types}) {
    std::vector<LayerType> more = theme();
    types.insert(types.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  }
  return types;
}

}  // namespace harmonics::inline in_graph
