// LSTM and GRU as nodes of ONNX: gates in its order, the batch as the second axis.
#include <algorithm>
#include <span>

#include "onnx_exporter.h"

namespace harmonics::inline in_models {
namespace {

// Rows of gates in ONNX's order, of all directions and of each name in turn.
Constant stacked(OnnxExporter& out, const WrittenLayer& layer,
                 const std::vector<std::string>& names, std::span<const std::int64_t> order) {
  const std::int64_t width = layer.query.integer("width");
  const std::int64_t directions = layer.query.integer("directions");
  std::vector<double> numbers;
  std::int64_t columns = 1;
  for (std::int64_t way = 0; way < directions; ++way) {
    for (const std::string& name : names) {
      const Tensor tensor = out.parameter_values(layer, format("{}.{}", name, way));
      const std::span<const float> values = tensor.values<float>();
      columns = tensor.shape().size() == 2 ? tensor.shape()[1] : 1;
      const auto block = static_cast<std::size_t>(width * columns);
      for (const std::int64_t gate : order) {
        const auto from = values.subspan(static_cast<std::size_t>(gate) * block, block);
        numbers.insert(numbers.end(), from.begin(), from.end());
      }
    }
  }
  const auto rows = static_cast<std::int64_t>(names.size() * order.size()) * width;
  const bool is_bias = names.size() == 2;
  return Constant::of_reals(is_bias ? Shape{directions, rows} : Shape{directions, rows, columns},
                            numbers, layer.shape.output.dtype);
}

std::string write_recurrent(OnnxExporter& out, const WrittenLayer& layer) {
  const LayerQuery& q = layer.query;
  const bool is_lstm = layer.node.type == "lstm";
  // Ours are input, forget, cell, output and reset, update, new.
  const std::vector<std::int64_t> order =
      is_lstm ? std::vector<std::int64_t>{0, 3, 1, 2} : std::vector<std::int64_t>{1, 0, 2};
  const std::string& name = layer.node.name;
  const auto turned = [&](const std::string& value) {
    return out.node("Transpose", {value}, {{"perm", Shape{1, 0, 2}}});
  };
  std::vector<std::string> inputs = {
      turned(layer.inputs[0]), out.constant(name + ".W", stacked(out, layer, {"weight_ih"}, order)),
      out.constant(name + ".R", stacked(out, layer, {"weight_hh"}, order))};
  const bool biased = q.integer("bias") != 0, starts = layer.inputs.size() > 1;
  if (biased || starts) {
    inputs.push_back(
        biased ? out.constant(name + ".B", stacked(out, layer, {"bias_ih", "bias_hh"}, order))
               : "");
  }
  if (starts) inputs.emplace_back("");
  for (std::size_t i = 1; i < layer.inputs.size(); ++i) inputs.push_back(turned(layer.inputs[i]));
  const std::string direction = q.integer("directions") == 2 ? "bidirectional"
                                : q.integer("reverse") != 0  ? "reverse"
                                                             : "forward";
  Attributes attributes = {{"hidden_size", q.integer("width")}, {"direction", direction}};
  if (!is_lstm)
    attributes["linear_before_reset"] = std::int64_t{q.integer("linear_before_reset") != 0};
  const std::vector<std::string> made =
      out.nodes(is_lstm ? "LSTM" : "GRU", inputs, std::move(attributes), is_lstm ? 3 : 2);
  // {length, directions, batch, width} as {batch, length, directions * width}
  const std::string rows =
      out.node("Reshape", {out.node("Transpose", {made[0]}, {{"perm", Shape{2, 0, 1, 3}}}),
                           out.integers({0, 0, q.integer("directions") * q.integer("width")})});
  if (q.integer_or("states", 0) == 0) return rows;
  std::vector<std::string> all = {rows};
  for (std::size_t i = 1; i < made.size(); ++i)
    all.push_back(out.node("Reshape", {turned(made[i]), out.integers({0, 1, -1})}));
  return out.node("Concat", all, {{"axis", std::int64_t{1}}});
}

}  // namespace

OnnxLayerWriters onnx_recurrent_writers() {
  return {{"lstm", write_recurrent}, {"gru", write_recurrent}};
}

}  // namespace harmonics::inline in_models
