// Layers that read a sequence row by row: LSTM and GRU, with the gates and names of PyTorch's.
#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

// The states before the first row: {directions, width} each.
void check_states(const LayerQuery& q, const Shape& state) {
  for (const TensorSpec& input : q.inputs.subspan(1)) {
    if (input != TensorSpec{state, q.inputs[0].dtype}) {
      q.refuse(format("a start state must be {}", spec_text({state, q.inputs[0].dtype})));
    }
  }
}

LayerShape infer_recurrent(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 2, "{length, width}");
  const std::int64_t length = q.inputs[0].shape[0], in = q.inputs[0].shape[1];
  const std::int64_t width = q.integer("width", 1), directions = q.integer("directions", 1);
  const std::int64_t gates = (q.type == "lstm" ? 4 : 3) * width;
  if (directions > 2) q.refuse("'directions' must be 1 or 2");
  if (directions == 2 && q.integer("reverse") != 0) q.refuse("'reverse' needs directions=1");
  check_states(q, {directions, width});
  if (q.type == "lstm" && q.inputs.size() == 2) q.refuse("takes both start states or none");
  const double bound = kaiming_bound(width);
  // With `states` the states after the last step follow, a row each.
  const std::int64_t more = q.integer_or("states", 0) == 0 ? 0 : q.type == "lstm" ? 2 : 1;
  LayerShape result{{{length + more, directions * width}, q.inputs[0].dtype}, {}, 0};
  for (std::int64_t direction = 0; direction < directions; ++direction) {
    const auto add = [&](const char* name, Shape shape) {
      result.parameters.push_back(
          {format("{}.{}", name, direction), std::move(shape), Init::kUniform, bound});
    };
    add("weight_ih", {gates, in});
    add("weight_hh", {gates, width});
    if (q.integer("bias") != 0) {
      add("bias_ih", {gates});
      add("bias_hh", {gates});
    }
    result.flops += 2.0 * static_cast<double>(length) * static_cast<double>(gates) *
                    static_cast<double>(in + width);
  }
  return result;
}

}  // namespace

std::vector<LayerType> recurrent_layer_types() {
  std::vector<AttributeSpec> lstm = {required("width"), with_default("directions", std::int64_t{1}),
                                     with_default("reverse", std::int64_t{0}),
                                     with_default("bias", std::int64_t{1})};
  std::vector<AttributeSpec> gru = lstm;
  gru.push_back(with_default("linear_before_reset", std::int64_t{1}));
  for (std::vector<AttributeSpec>* one : {&lstm, &gru}) one->push_back(optional("states"));
  return {
      {"lstm", lstm, 1, 3, infer_recurrent},
      {"gru", gru, 1, 2, infer_recurrent},
  };
}

}  // namespace harmonics::inline in_graph
