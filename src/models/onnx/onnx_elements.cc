// Operators that work number by number.
#include <algorithm>
#include <limits>

#include "fold.h"
#include "onnx_operators.h"

namespace harmonics::inline in_models {
namespace {

std::string_view layer_of(std::string_view op) {
  if (op == "Add" || op == "Sum") return "add";
  if (op == "Sub") return "sub";
  if (op == "Mul") return "mul";
  if (op == "Div") return "div";
  if (op == "Pow") return "pow";
  // Of truths the larger is "or", the smaller "and".
  return op == "Max" || op == "Or" ? "max" : "min";
}

// A constant as an operand of a living value: its axes behind the batch's place.
std::optional<Constant> beside(const Constant& value, const Living& x) {
  if (!x.has_batch()) return value;
  const std::size_t rank = x.shape.size();
  Shape shape = value.shape();
  if (shape.size() > rank) return std::nullopt;
  const std::size_t missing = rank - shape.size();
  if (x.batch_axis < missing) {
    return shape.size() <= rank - 1 - x.batch_axis ? std::optional(value) : std::nullopt;
  }
  const std::size_t batch = x.batch_axis - missing;
  if (shape[batch] == kBatchExtent && value.size() > 0) return std::nullopt;
  if (shape[batch] != 1) return std::nullopt;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(batch));
  return value.reshaped(shape);
}

// x OP value, or value OP x where `reverse`.
Living with_constant(OnnxImporter& importer, const OnnxNode& node, const Living& x,
                     const Constant& value, bool reverse) {
  const std::string_view type = layer_of(node.op);
  const std::optional<Constant> operand = beside(value, x);
  if (!operand)
    importer.refuse(node, format("a constant of {} does not fit {} sample by sample",
                                 shape_text(value.shape()), shape_text(x.shape)));
  Attributes attributes = {{"constant", operand->shape()}};
  if (reverse && (type == "sub" || type == "div" || type == "pow"))
    attributes["reverse"] = std::int64_t{1};
  const Living out = importer.add_layer(node, type, std::move(attributes), {x},
                                        broadcast_shape(x.shape, value.shape()));
  importer.set_weight(out, "value", *operand);
  return out;
}

Living of_function(OnnxImporter& importer, const OnnxNode& node, const Living& x,
                   const std::string& name) {
  return importer.add_layer(node, "function", {{"of", name}}, {x}, x.shape);
}

Living both(OnnxImporter& importer, const OnnxNode& node, std::string_view type, const Living& a,
            const Living& b) {
  importer.check_batches(node, a, b);
  const Living& longer = a.shape.size() >= b.shape.size() ? a : b;
  Living out = importer.add_layer(node, type, {}, {a, b}, broadcast_shape(a.shape, b.shape));
  out.batch_axis = longer.batch_axis;
  return out;
}

void import_arithmetic(OnnxImporter& importer, const OnnxNode& node) {
  const std::string_view type = layer_of(node.op);
  std::optional<OnnxValue> result;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const OnnxValue& next = importer.input(node, i);
    if (!result) {
      result = next;
      continue;
    }
    const auto* left = std::get_if<Living>(&*result);
    const auto* right = std::get_if<Living>(&next);
    if (left != nullptr && right != nullptr) {
      result = both(importer, node, type, *left, *right);
    } else if (left != nullptr) {
      result = with_constant(importer, node, *left, std::get<Constant>(next), false);
    } else if (right != nullptr) {
      result = with_constant(importer, node, *right, std::get<Constant>(*result), true);
    } else {
      importer.refuse(node, "two of its inputs are constants");
    }
  }
  importer.set_output(node, 0, *result);
}

// The dtype of the result is that of the base, whatever the exponent's.
void import_pow(OnnxImporter& importer, const OnnxNode& node) {
  const auto dtype = [&](std::size_t index) {
    const Constant* value = importer.constant(node, index);
    return value == nullptr ? importer.living(node, index).dtype : value->dtype();
  };
  const DType base = dtype(0), exponent = dtype(1);
  const auto* x = std::get_if<Living>(&importer.input(node, 0));
  const auto* y = std::get_if<Living>(&importer.input(node, 1));
  if (base == exponent || (x != nullptr && y == nullptr && is_floating(base)))
    return import_arithmetic(importer, node);
  const bool through_real = !is_floating(base) && is_floating(exponent);
  if (x == nullptr) importer.refuse(node, "its base is a constant of another type");
  const Living left = importer.cast(node, *x, through_real ? exponent : base);
  const Living raised = y == nullptr
                            ? with_constant(importer, node, left, importer.known(node, 1), false)
                            : both(importer, node, "pow", left,
                                   importer.cast(node, *y, through_real ? exponent : base));
  importer.set_output(node, 0, importer.cast(node, raised, base));
}

void import_activation(OnnxImporter& importer, const OnnxNode& node) {
  static const std::map<std::string_view, const char*> kNames = {
      {"Relu", "relu"}, {"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}};
  importer.set_output(node, 0,
                      importer.activated(node, importer.living(node, 0), kNames.at(node.op)));
}

void import_gelu(OnnxImporter& importer, const OnnxNode& node) {
  const bool approximate = node.text("approximate", "none") == "tanh";
  importer.set_output(
      node, 0,
      importer.activated(node, importer.living(node, 0), approximate ? "gelu_tanh" : "gelu"));
}

void import_function(OnnxImporter& importer, const OnnxNode& node) {
  static const std::map<std::string_view, const char*> kNames = {
      {"Exp", "exp"},     {"Log", "log"},           {"Sqrt", "sqrt"},
      {"Abs", "abs"},     {"Neg", "neg"},           {"Reciprocal", "reciprocal"},
      {"Floor", "floor"}, {"Ceil", "ceil"},         {"Round", "round"},
      {"Erf", "erf"},     {"Sin", "sin"},           {"Cos", "cos"},
      {"Not", "not"},     {"Softplus", "softplus"}, {"Sign", "sign"}};
  importer.set_output(node, 0,
                      of_function(importer, node, importer.living(node, 0), kNames.at(node.op)));
}

// Before opset 13 all axes from `axis` on were one.
Living softmax_of_all_behind(OnnxImporter& importer, const OnnxNode& node, const Living& x,
                             std::size_t place) {
  if (x.has_batch() && place <= x.batch_axis)
    importer.refuse(node, "it works across the samples of a batch");
  Shape flat(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(place));
  flat.push_back(
      element_count(Shape(x.shape.begin() + static_cast<std::ptrdiff_t>(place), x.shape.end())));
  const Living seen = importer.reshaped(node, x, flat, x.batch_axis);
  const Living out =
      importer.add_layer(node, "softmax", {{"axis", std::int64_t{-1}}}, {seen}, seen.shape);
  return importer.reshaped(node, out, x.shape, x.batch_axis);
}

void import_softmax(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const std::int64_t axis = node.integer("axis", importer.opset() >= 13 ? -1 : 1);
  const std::size_t place = front_axis(axis, x.shape.size());
  bool trailing_ones = true;
  for (std::size_t i = place + 1; i < x.shape.size(); ++i)
    trailing_ones = trailing_ones && x.shape[i] == 1;
  if (importer.opset() < 13 && !trailing_ones)
    return importer.set_output(node, 0, softmax_of_all_behind(importer, node, x, place));
  const std::int64_t own = importer.sample_axis(node, x, axis);
  if (place + 1 == x.shape.size())
    return importer.set_output(node, 0, importer.activated(node, x, "softmax"));
  importer.set_output(node, 0, importer.add_layer(node, "softmax", {{"axis", own}}, {x}, x.shape));
}

void import_clip(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  Attributes attributes;
  std::vector<std::pair<const char*, Living>> computed;
  const auto bound = [&](const char* name, const char* layer, std::size_t index) {
    if (importer.has_input(node, index) && importer.constant(node, index) == nullptr) {
      computed.emplace_back(layer, importer.living(node, index));
    } else if (importer.has_input(node, index)) {
      attributes[name] = importer.known(node, index).real();
    } else if (node.find(name) != nullptr) {
      attributes[name] = node.real(name, 0);
    }
  };
  bound("min", "max", 1);
  bound("max", "min", 2);
  Living out = x;
  // ONNX lets the upper bound win over a lower one that is above it.
  if (attributes.contains("min") && attributes.contains("max") &&
      std::get<double>(attributes["min"]) > std::get<double>(attributes["max"]))
    attributes["min"] = attributes["max"];
  if (!attributes.empty())
    out = importer.add_layer(node, "clip", std::move(attributes), {out}, x.shape);
  for (const auto& [layer, value] : computed) out = both(importer, node, layer, out, value);
  importer.set_output(node, 0, out);
}

constexpr double kSeluAlpha = 1.67326319217681884765625, kSeluGamma = 1.05070102214813232421875;

// Layers with one or two numbers of their own: ONNX's names, its defaults and ours.
void import_shaped_activation(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const auto add = [&](const char* type, Attributes attributes) {
    importer.set_output(node, 0,
                        importer.add_layer(node, type, std::move(attributes), {x}, x.shape));
  };
  if (node.op == "LeakyRelu") return add("leaky_relu", {{"slope", node.real("alpha", 0.01)}});
  if (node.op == "Elu") return add("elu", {{"alpha", node.real("alpha", 1.0)}});
  if (node.op == "Selu") {
    if (node.find("alpha") == nullptr && node.find("gamma") == nullptr)
      return importer.set_output(node, 0, importer.activated(node, x, "selu"));
    const Living bent =
        importer.add_layer(node, "elu", {{"alpha", node.real("alpha", kSeluAlpha)}}, {x}, x.shape);
    const Constant gamma = Constant::of_reals({}, {node.real("gamma", kSeluGamma)});
    const Living out = importer.add_layer(node, "mul", {{"constant", Shape{}}}, {bent}, x.shape);
    importer.set_weight(out, "value", gamma);
    return importer.set_output(node, 0, out);
  }
  if (node.op == "HardSwish") {
    const Living gate =
        importer.add_layer(node, "hard_sigmoid", {{"alpha", 1.0 / 6}, {"beta", 0.5}}, {x}, x.shape);
    return importer.set_output(node, 0, both(importer, node, "mul", x, gate));
  }
  add("hard_sigmoid", {{"alpha", node.real("alpha", 0.2)}, {"beta", node.real("beta", 0.5)}});
}

void import_comparison(OnnxImporter& importer, const OnnxNode& node) {
  // With the operands in their order, and the other way round.
  static const std::map<std::string_view, std::pair<const char*, const char*>> kNames = {
      {"Equal", {"equal", "equal"}},
      {"Less", {"less", "greater"}},
      {"LessOrEqual", {"less_or_equal", "greater_or_equal"}},
      {"Greater", {"greater", "less"}},
      {"GreaterOrEqual", {"greater_or_equal", "less_or_equal"}}};
  const bool turned = importer.constant(node, 0) != nullptr;
  const auto [straight, backwards] = kNames.at(node.op);
  const Attribute op = std::string(turned ? backwards : straight);
  const Living a = importer.living(node, turned ? 1 : 0);
  Living out;
  if (const Constant* value = importer.constant(node, turned ? 0 : 1)) {
    const std::optional<Constant> operand = beside(*value, a);
    if (!operand) importer.refuse(node, "its constant does not fit sample by sample");
    out = importer.add_layer(node, "compare", {{"op", op}, {"constant", operand->shape()}}, {a},
                             broadcast_shape(a.shape, value->shape()));
    importer.set_weight(out, "value", *operand);
  } else {
    const Living b = importer.living(node, 1);
    importer.check_batches(node, a, b);
    out = importer.add_layer(node, "compare", {{"op", op}}, {a, b},
                             broadcast_shape(a.shape, b.shape));
    out.batch_axis = a.shape.size() >= b.shape.size() ? a.batch_axis : b.batch_axis;
  }
  out.dtype = DType::kBool;
  importer.set_output(node, 0, out);
}

void import_where(OnnxImporter& importer, const OnnxNode& node) {
  // The longest tensor of the three says where the batch is.
  std::optional<Living> like;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto* value = std::get_if<Living>(&importer.input(node, i));
    if (value != nullptr && (!like || value->shape.size() > like->shape.size())) like = *value;
  }
  std::vector<Living> inputs;
  Shape shape;
  for (std::size_t i = 0; i < 3; ++i) {
    inputs.push_back(importer.living_or_layer(node, i, *like));
    importer.check_batches(node, *like, inputs.back());
    shape = i == 0 ? inputs[0].shape : broadcast_shape(shape, inputs.back().shape);
  }
  Living out = importer.add_layer(node, "where", {}, inputs, shape);
  out.batch_axis = like->batch_axis;
  out.dtype = inputs[1].dtype;
  importer.set_output(node, 0, out);
}

void import_cast(OnnxImporter& importer, const OnnxNode& node) {
  const std::optional<DType> type = onnx_dtype(node.integer("to", 0));
  if (!type) importer.refuse(node, "it casts to a type that is not covered");
  importer.set_output(node, 0, importer.cast(node, importer.living(node, 0), *type));
}

constexpr OnnxOperator kElements[] = {
    {"Add", import_arithmetic},
    {"Sub", import_arithmetic},
    {"Mul", import_arithmetic},
    {"Div", import_arithmetic},
    {"Pow", import_pow},
    {"And", import_arithmetic},
    {"Or", import_arithmetic},
    {"Max", import_arithmetic},
    {"Min", import_arithmetic},
    {"Sum", import_arithmetic},
    {"Relu", import_activation},
    {"Sigmoid", import_activation},
    {"Tanh", import_activation},
    {"Gelu", import_gelu},
    {"Exp", import_function},
    {"Log", import_function},
    {"Sqrt", import_function},
    {"Abs", import_function},
    {"Neg", import_function},
    {"Reciprocal", import_function},
    {"Floor", import_function},
    {"Ceil", import_function},
    {"Round", import_function},
    {"Erf", import_function},
    {"Sin", import_function},
    {"Cos", import_function},
    {"Not", import_function},
    {"Softplus", import_function},
    {"Sign", import_function},
    {"Softmax", import_softmax},
    {"Clip", import_clip},
    {"LeakyRelu", import_shaped_activation},
    {"Elu", import_shaped_activation},
    {"Selu", import_shaped_activation},
    {"HardSwish", import_shaped_activation},
    {"HardSigmoid", import_shaped_activation},
    {"Equal", import_comparison},
    {"Less", import_comparison},
    {"LessOrEqual", import_comparison},
    {"Greater", import_comparison},
    {"GreaterOrEqual", import_comparison},
    {"Where", import_where},
    {"Cast", import_cast},
};

}  // namespace

std::span<const OnnxOperator> onnx_element_operators() { return kElements; }

}  // namespace harmonics::inline in_models
