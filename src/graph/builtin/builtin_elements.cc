// Layers that combine tensors element by element: arithmetic, comparisons, choices.
#include <algorithm>
#include <array>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

constexpr std::array<std::string_view, 6> kComparisons = {
    "equal", "not_equal", "less", "less_or_equal", "greater", "greater_or_equal"};

// All inputs from `first` on have one dtype and broadcast to one shape.
TensorSpec broadcast_inputs(const LayerQuery& q, std::size_t first = 0) {
  TensorSpec all = q.inputs[first];
  for (std::size_t i = first + 1; i < q.inputs.size(); ++i) {
    const auto shape = broadcast(all.shape, q.inputs[i].shape);
    if (!shape || q.inputs[i].dtype != all.dtype) {
      q.refuse(format("all inputs must agree, but {} is not {}", spec_text(q.inputs[i]),
                      spec_text(q.inputs[first])));
    }
    all.shape = *shape;
  }
  return all;
}

// The other operand, kept by the layer: a buffer unless it is to be learnt.
ParameterSpec constant_value(const LayerQuery& q, double otherwise) {
  return {"value", q.list("constant"), Init::kConstant, q.number_or("start", otherwise),
          q.integer_or("learned", 0) != 0};
}

// Inputs that broadcast, or one input and a constant.
LayerShape with_operands(const LayerQuery& q, double otherwise) {
  LayerShape result{broadcast_inputs(q), {}, 0};
  if (!q.has("constant")) {
    if (q.inputs.size() < 2) q.refuse("takes at least 2 inputs, it has 1 and no 'constant'");
    for (const char* name : {"start", "learned", "reverse"}) {
      if (q.has(name)) q.refuse(format("'{}' needs 'constant'", name));
    }
  } else {
    if (q.inputs.size() > 1) {
      q.refuse(format("takes 1 input with 'constant', it has {}", q.inputs.size()));
    }
    const auto shape = broadcast(result.output.shape, q.list("constant"));
    if (!shape) q.refuse(format("its constant {} does not fit", shape_text(q.list("constant"))));
    result.output.shape = *shape;
    result.parameters = {constant_value(q, otherwise)};
  }
  const std::size_t operations = std::max<std::size_t>(q.inputs.size(), 2) - 1;
  result.flops = elements(result.output.shape) * static_cast<double>(operations);
  return result;
}

// Whole numbers too; of truths the larger and the smaller, which are "or" and "and".
LayerShape infer_arithmetic(const LayerQuery& q) {
  const DType dtype = q.inputs[0].dtype;
  if (dtype == DType::kBool && q.type != "max" && q.type != "min")
    q.refuse("needs numbers; of truths there are max (or) and min (and)");
  if (!is_floating(dtype) && q.integer_or("learned", 0) != 0)
    q.refuse("only floating-point numbers can be learnt");
  return with_operands(q, q.type == "mul" || q.type == "div" || q.type == "pow" ? 1 : 0);
}

LayerShape infer_compare(const LayerQuery& q) {
  if (std::ranges::find(kComparisons, q.text("op")) == kComparisons.end()) {
    q.refuse(
        format("'op' must be equal, not_equal, less, less_or_equal, greater or "
               "greater_or_equal, not {}",
               q.text("op")));
  }
  if (q.integer_or("learned", 0) != 0) q.refuse("a comparison bears no gradient to learn from");
  LayerShape result = with_operands(q, 0);
  result.output.dtype = DType::kBool;
  return result;
}

LayerShape infer_where(const LayerQuery& q) {
  if (is_floating(q.inputs[0].dtype)) q.refuse("its condition must be bool or whole numbers");
  TensorSpec output = broadcast_inputs(q, 1);
  const auto shape = broadcast(output.shape, q.inputs[0].shape);
  if (!shape) {
    q.refuse(format("its condition {} does not fit {}", spec_text(q.inputs[0]), spec_text(output)));
  }
  output.shape = *shape;
  return {output, {}, elements(output.shape)};
}

// One tensor for every sample; the input says how many samples there are.
LayerShape infer_constant(const LayerQuery& q) {
  const auto dtype = dtype_of(q, "dtype");
  if (!is_floating(dtype) && q.integer_or("learned", 0) != 0) {
    q.refuse("only floating-point numbers can be learnt");
  }
  return {{q.list("shape"), dtype},
          {{"value", q.list("shape"), Init::kConstant, q.number("start"),
            q.integer_or("learned", 0) != 0}},
          0};
}

// A parameter as a tensor, one for all samples: what a cut sends to a part whose layer is tied to
// it.
LayerShape infer_weight(const LayerQuery& q) {
  const DType dtype = dtype_of(q, "dtype");
  if (!is_floating(dtype)) q.refuse("only floating-point numbers can be learnt");
  return {{q.list("shape"), dtype}, {{"weight", q.list("shape"), Init::kConstant, 0}}, 0};
}

LayerShape infer_expand(const LayerQuery& q) {
  const Shape wanted = q.list("shape");
  const auto shape = broadcast(q.inputs[0].shape, wanted);
  if (!shape) q.refuse(format("cannot be expanded to {}", shape_text(wanted)));
  return {{*shape, q.inputs[0].dtype}, {}, 0};
}

}  // namespace

std::vector<LayerType> element_layer_types() {
  const std::vector<AttributeSpec> constant = {optional("constant"), optional("start"),
                                               optional("learned")};
  std::vector<AttributeSpec> ordered = constant, comparison = constant;
  ordered.push_back(optional("reverse"));
  comparison.insert(comparison.begin(), required("op"));
  std::vector<LayerType> types = {
      {"compare", comparison, 1, 2, infer_compare},
      {"where", {}, 3, 3, infer_where},
      {"constant",
       {required("shape"), with_default("dtype", std::string("float32")),
        with_default("start", 0.0), optional("learned")},
       1,
       1,
       infer_constant},
      {"weight",
       {required("shape"), with_default("dtype", std::string("float32"))},
       0,
       0,
       infer_weight},
      {"expand", {required("shape")}, 1, 1, infer_expand},
  };
  for (const char* name : {"add", "mul", "max", "min"}) {
    types.push_back({name, constant, 1, kManyInputs, infer_arithmetic});
  }
  for (const char* name : {"sub", "div", "pow"}) {
    types.push_back({name, ordered, 1, 2, infer_arithmetic});
  }
  return types;
}

}  // namespace harmonics::inline in_graph
