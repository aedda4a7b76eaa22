// Layers of one input that look at each element alone, and softmax along any axis.
#include <algorithm>
#include <array>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

constexpr std::array<std::string_view, 16> kFunctions = {
    "exp",   "log", "sqrt", "abs", "neg",  "reciprocal", "floor",      "ceil",
    "round", "erf", "sin",  "cos", "sign", "softplus",   "hard_swish", "mish"};

LayerShape infer_dropout(const LayerQuery& q) {
  need_floating(q);
  const double p = q.number("p");
  if (!(p >= 0 && p < 1)) q.refuse(format("'p' must be at least 0 and below 1, not {}", p));
  return {q.inputs[0], {}, elements(q.inputs[0].shape)};
}

LayerShape infer_function(const LayerQuery& q) {
  const std::string& of = q.text("of");
  if (of == "not") {
    if (q.inputs[0].dtype != DType::kBool) q.refuse("'not' needs a bool input");
  } else if (std::ranges::find(kFunctions, of) == kFunctions.end()) {
    std::string all = "not";
    for (const std::string_view name : kFunctions) all += format(", {}", name);
    q.refuse(format("'of' must be one of {}, not {}", all, of));
  } else if ((of != "abs" && of != "neg" && of != "sign") || q.inputs[0].dtype == DType::kBool) {
    need_floating(q);
  }
  return {q.inputs[0], {}, elements(q.inputs[0].shape)};
}

LayerShape infer_clip(const LayerQuery& q) {
  if (q.inputs[0].dtype == DType::kBool) q.refuse("needs numbers");
  if (!q.has("min") && !q.has("max")) q.refuse("needs 'min', 'max' or both");
  if (q.has("min") && q.has("max") && q.number("min") > q.number("max")) {
    q.refuse("'min' must not be above 'max'");
  }
  return {q.inputs[0], {}, elements(q.inputs[0].shape)};
}

// Layers of real settings: they keep the shape.
LayerShape infer_bend(const LayerQuery& q) {
  need_floating(q);
  for (const char* name : {"alpha", "beta", "slope"}) static_cast<void>(q.number_or(name, 0));
  return {q.inputs[0], {}, 2.0 * elements(q.inputs[0].shape)};
}

LayerShape infer_softmax(const LayerQuery& q) {
  need_floating(q);
  static_cast<void>(sample_axis(q, "axis", q.integer("axis")));
  return {q.inputs[0], {}, 4.0 * elements(q.inputs[0].shape)};
}

LayerShape infer_cast(const LayerQuery& q) {
  return {{q.inputs[0].shape, dtype_of(q, "to")}, {}, 0};
}

}  // namespace

std::vector<LayerType> function_layer_types() {
  return {
      {"dropout", {with_default("p", 0.5)}, 1, 1, infer_dropout},
      {"function", {required("of")}, 1, 1, infer_function},
      {"clip", {optional("min"), optional("max")}, 1, 1, infer_clip},
      {"hard_sigmoid", {with_default("alpha", 0.2), with_default("beta", 0.5)}, 1, 1, infer_bend},
      {"leaky_relu", {with_default("slope", 0.01)}, 1, 1, infer_bend},
      {"elu", {with_default("alpha", 1.0)}, 1, 1, infer_bend},
      {"softmax", {with_default("axis", std::int64_t{-1})}, 1, 1, infer_softmax},
      {"cast", {required("to")}, 1, 1, infer_cast},
  };
}

}  // namespace harmonics::inline in_graph
