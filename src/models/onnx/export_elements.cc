// Arithmetic, comparisons, functions and sums as nodes of ONNX.
#include <algorithm>

#include "onnx_exporter.h"

namespace harmonics::inline in_models {
namespace {

std::size_t most_axes(const WrittenLayer& layer) {
  std::size_t most = layer.query.has("constant") ? layer.query.list("constant").size() : 0;
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) most = std::max(most, layer.rank(i));
  return most;
}

// The operands of a layer, their samples with equally many axes; a constant of its own comes last.
std::vector<std::string> operands(OnnxExporter& out, const WrittenLayer& layer) {
  const std::size_t axes = most_axes(layer);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < layer.inputs.size(); ++i)
    all.push_back(out.aligned(layer.inputs[i], layer.rank(i), axes));
  if (layer.query.has("constant"))
    all.push_back(out.parameter(layer, "value", layer.input().dtype));
  if (layer.query.integer_or("reverse", 0) != 0) std::reverse(all.begin(), all.end());
  return all;
}

std::string write_arithmetic(OnnxExporter& out, const WrittenLayer& layer) {
  static const std::map<std::string_view, const char*> kNames = {
      {"add", "Add"}, {"mul", "Mul"}, {"sub", "Sub"}, {"div", "Div"},
      {"pow", "Pow"}, {"max", "Max"}, {"min", "Min"}};
  std::string_view op = kNames.at(layer.node.type);
  if (layer.input().dtype == DType::kBool) op = layer.node.type == "max" ? "Or" : "And";
  const std::vector<std::string> all = operands(out, layer);
  std::string value = all[0];
  for (std::size_t i = 1; i < all.size(); ++i) value = out.node(op, {value, all[i]});
  return value;
}

std::string write_compare(OnnxExporter& out, const WrittenLayer& layer) {
  static const std::map<std::string_view, const char*> kNames = {
      {"equal", "Equal"},     {"not_equal", "Equal"},
      {"less", "Less"},       {"less_or_equal", "LessOrEqual"},
      {"greater", "Greater"}, {"greater_or_equal", "GreaterOrEqual"}};
  const std::string& op = layer.query.text("op");
  const std::string value = out.node(kNames.at(op), operands(out, layer));
  return op == "not_equal" ? out.node("Not", {value}) : value;
}

std::string as_type(OnnxExporter& out, const std::string& value, DType from, DType to) {
  return from == to ? value : out.node("Cast", {value}, {{"to", onnx_data_type(to)}});
}

std::string write_where(OnnxExporter& out, const WrittenLayer& layer) {
  std::vector<std::string> all = operands(out, layer);
  all[0] = as_type(out, all[0], layer.input().dtype, DType::kBool);
  return out.node("Where", all);
}

// The same numbers for every sample.
std::string write_constant(OnnxExporter& out, const WrittenLayer& layer) {
  const TensorSpec& made = layer.shape.output;
  const std::string value = out.parameter(layer, "value", made.dtype);
  const std::string samples = out.extent(layer.inputs[0], 0);
  const std::string shape =
      made.shape.empty()
          ? samples
          : out.node("Concat", {samples, out.integers(made.shape)}, {{"axis", std::int64_t{0}}});
  return out.node("Expand", {value, shape});
}

std::string write_expand(OnnxExporter& out, const WrittenLayer& layer) {
  Shape shape = layer.query.list("shape");
  const std::size_t axes = std::max(shape.size(), layer.rank());
  shape.insert(shape.begin(), axes + 1 - shape.size(), 1);
  return out.node("Expand",
                  {out.aligned(layer.inputs[0], layer.rank(), axes), out.integers(shape)});
}

std::string write_function(OnnxExporter& out, const WrittenLayer& layer) {
  static const std::map<std::string_view, const char*> kNames = {
      {"exp", "Exp"},           {"log", "Log"},
      {"sqrt", "Sqrt"},         {"abs", "Abs"},
      {"neg", "Neg"},           {"reciprocal", "Reciprocal"},
      {"floor", "Floor"},       {"ceil", "Ceil"},
      {"round", "Round"},       {"erf", "Erf"},
      {"sin", "Sin"},           {"cos", "Cos"},
      {"sign", "Sign"},         {"not", "Not"},
      {"softplus", "Softplus"}, {"hard_swish", "HardSwish"}};
  const std::string& of = layer.query.text("of");
  const std::string& x = layer.inputs[0];
  if (of == "mish") return out.node("Mul", {x, out.node("Tanh", {out.node("Softplus", {x})})});
  return out.node(kNames.at(of), {x});
}

std::string write_clip(OnnxExporter& out, const WrittenLayer& layer) {
  const auto bound = [&](const char* name) {
    return layer.query.has(name) ? out.number(layer.query.number(name), layer.input().dtype)
                                 : std::string();
  };
  return out.node("Clip", {layer.inputs[0], bound("min"), bound("max")});
}

std::string write_bend(OnnxExporter& out, const WrittenLayer& layer) {
  const LayerQuery& q = layer.query;
  if (layer.node.type == "leaky_relu")
    return out.node("LeakyRelu", layer.inputs, {{"alpha", q.number("slope")}});
  if (layer.node.type == "elu")
    return out.node("Elu", layer.inputs, {{"alpha", q.number("alpha")}});
  return out.node("HardSigmoid", layer.inputs,
                  {{"alpha", q.number("alpha")}, {"beta", q.number("beta")}});
}

std::string write_softmax(OnnxExporter& out, const WrittenLayer& layer) {
  const std::int64_t axis = layer.query.integer("axis");
  return out.node("Softmax", layer.inputs, {{"axis", axis < 0 ? axis : axis + 1}});
}

std::string write_cast(OnnxExporter& out, const WrittenLayer& layer) {
  return out.node("Cast", layer.inputs, {{"to", onnx_data_type(layer.shape.output.dtype)}});
}

std::string write_reduce(OnnxExporter& out, const WrittenLayer& layer) {
  static const std::map<std::string_view, const char*> kNames = {
      {"sum", "ReduceSum"},
      {"mean", "ReduceMean"},
      {"max", "ReduceMax"},
      {"min", "ReduceMin"},
      {"prod", "ReduceProd"},
      {"l2", "ReduceL2"},
      {"log_sum_exp", "ReduceLogSumExp"}};
  const std::string& op = layer.query.text("op");
  Shape axes = layer.query.has("axes") ? layer.query.list("axes") : Shape();
  for (std::int64_t& axis : axes) axis += axis < 0 ? 0 : 1;
  if (axes.empty()) {
    for (std::size_t i = 1; i <= layer.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  const std::string& x = layer.inputs[0];
  if (layer.rank() == 0) return op == "l2" ? out.node("Abs", {x}) : out.node("Identity", {x});
  const std::int64_t keep = layer.query.integer("keep") != 0 ? 1 : 0;
  if (op == "sum") return out.node("ReduceSum", {x, out.integers(axes)}, {{"keepdims", keep}});
  const DType own = layer.input().dtype;
  const DType seen = own == DType::kBool ? DType::kUInt8 : own;
  const std::string value =
      out.node(kNames.at(op), {as_type(out, x, own, seen)}, {{"axes", axes}, {"keepdims", keep}});
  return as_type(out, value, seen, own);
}

std::string write_matmul(OnnxExporter& out, const WrittenLayer& layer) {
  std::vector<std::string> both = operands(out, layer);
  const char* const names[] = {"transpose_a", "transpose_b"};
  for (std::size_t i = 0; i < 2; ++i) {
    if (layer.query.integer(names[i]) == 0) continue;
    Shape order;
    for (std::size_t axis = 0; axis <= most_axes(layer); ++axis)
      order.push_back(static_cast<std::int64_t>(axis));
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    both[i] = out.node("Transpose", {both[i]}, {{"perm", order}});
  }
  return out.node("MatMul", both);
}

}  // namespace

OnnxLayerWriters onnx_element_writers() {
  OnnxLayerWriters writers = {
      {"compare", write_compare},   {"where", write_where},       {"constant", write_constant},
      {"expand", write_expand},     {"function", write_function}, {"clip", write_clip},
      {"hard_sigmoid", write_bend}, {"leaky_relu", write_bend},   {"elu", write_bend},
      {"softmax", write_softmax},   {"cast", write_cast},         {"reduce", write_reduce},
      {"matmul", write_matmul}};
  for (const char* name : {"add", "mul", "sub", "div", "pow", "max", "min"})
    writers[name] = write_arithmetic;
  return writers;
}

}  // namespace harmonics::inline in_models
