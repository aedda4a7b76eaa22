// LSTM, written out step by step: ONNX also asks for the states after the last step, which are
// tensors of the graph then.
#include <algorithm>

#include "fold.h"
#include "onnx_operators.h"

namespace harmonics::inline in_models {
namespace {

/// A longer sequence would make a graph that nobody wants to read.
constexpr std::int64_t kMaxSteps = 64;

// Rows of gates in ONNX's order: input, output, forget, cell.
struct Lstm {
  OnnxImporter& importer;
  const OnnxNode& node;
  std::int64_t width = 0;
  Constant input_weight, state_weight, bias;

  // {batch, count} of a product.
  [[nodiscard]] Living product(const Living& x, const Constant& weight, const Constant* add) const {
    const Living out = importer.add_layer(
        node, "linear", {{"out", 4 * width}, {"bias", std::int64_t{add != nullptr}}}, {x},
        {kBatchExtent, 4 * width});
    importer.set_weight(out, "weight", weight);
    if (add != nullptr) importer.set_weight(out, "bias", *add);
    return out;
  }
  [[nodiscard]] Living pair(const char* type, const Living& a, const Living& b) const {
    return importer.add_layer(node, type, {}, {a, b}, {kBatchExtent, width});
  }
  [[nodiscard]] Living gate(const Living& gates, std::int64_t number,
                            const std::string& activation) const {
    const Living part = importer.add_layer(
        node, "slice", {{"axis", std::int64_t{0}}, {"begin", number * width}, {"count", width}},
        {gates}, {kBatchExtent, width});
    importer.set_activation(part, activation);
    return part;
  }
  // Both states after one more row.
  void step(const Living& row, Living& h, Living& c) const {
    const Living gates = importer.add_layer(
        node, "add", {}, {product(row, input_weight, &bias), product(h, state_weight, nullptr)},
        {kBatchExtent, 4 * width});
    const Living kept = pair("mul", gate(gates, 2, "sigmoid"), c);
    const Living added = pair("mul", gate(gates, 0, "sigmoid"), gate(gates, 3, "tanh"));
    c = pair("add", kept, added);
    const Living seen = importer.add_layer(node, "identity", {}, {c}, {kBatchExtent, width});
    importer.set_activation(seen, "tanh");
    h = pair("mul", gate(gates, 1, "sigmoid"), seen);
  }
};

// {1, rows…} of one direction without its first axis.
Constant of_one_direction(const Constant& value) {
  return value.reshaped(Shape(value.shape().begin() + 1, value.shape().end()));
}

// The two biases of a gate are only ever added.
Constant joined_bias(OnnxImporter& importer, const OnnxNode& node, std::int64_t width) {
  if (!importer.has_input(node, 3))
    return Constant::filled({4 * width}, Constant::of_reals({1}, {0}));
  const std::vector<double> both = importer.known(node, 3).reals();
  std::vector<double> sums;
  for (std::size_t i = 0; i < both.size() / 2; ++i)
    sums.push_back(static_cast<float>(both[i]) + static_cast<float>(both[i + both.size() / 2]));
  return Constant::of_reals({static_cast<std::int64_t>(sums.size())}, sums);
}

// A start state {1, batch, width} as {batch, width}: a tensor, a constant, or zeros.
Living start_state(OnnxImporter& importer, const OnnxNode& node, std::size_t index,
                   std::int64_t width, const Living& like) {
  Living row = like;
  row.shape = {kBatchExtent, width};
  row.batch_axis = 0;
  if (!importer.has_input(node, index)) {
    const Constant zeros = Constant::filled({1, width}, Constant::of_reals({1}, {0}));
    return importer.constant_layer(node, zeros, row);
  }
  if (const Constant* value = importer.constant(node, index)) {
    const Constant one = value->shape().size() == 3 && value->shape()[1] == kBatchExtent
                             ? Constant::filled({1, width}, value->reshaped(value->shape()))
                             : value->reshaped({1, width});
    return importer.constant_layer(node, one, row);
  }
  const Living given = importer.living(node, index);
  if (given.shape.size() != 3 || given.batch_axis != 1)
    importer.refuse(node, "its start state is not {1, batch, width}");
  Living out = importer.add_layer(node, "reshape", {{"shape", Shape{width}}}, {given},
                                  {kBatchExtent, width});
  out.batch_axis = 0;
  return out;
}

// {batch, width} seen as {1, batch, width}.
Living as_state(OnnxImporter& importer, const OnnxNode& node, const Living& row,
                std::int64_t width) {
  Living out = importer.add_layer(node, "reshape", {{"shape", Shape{1, width}}}, {row},
                                  {1, kBatchExtent, width});
  out.batch_axis = 1;
  return out;
}

void import_lstm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const Constant& input_weight = importer.known(node, 1);
  const std::int64_t width = node.integer("hidden_size", 0);
  if (x.shape.size() != 3 || x.batch_axis != 1 || node.integer("layout", 0) != 0)
    importer.refuse(node, "its input is not {length, batch, features}");
  if (node.text("direction", "forward") != "forward" || node.find("activations") != nullptr ||
      node.find("clip") != nullptr || importer.has_input(node, 4) || importer.has_input(node, 7)) {
    importer.refuse(node,
                    "only one forward direction without lengths, peepholes, clipping and "
                    "activations of its own is covered");
  }
  if (width < 1 || input_weight.shape().size() != 3 || input_weight.shape()[0] != 1 ||
      input_weight.shape()[1] != 4 * width) {
    importer.refuse(node, "its weights do not fit its hidden size");
  }
  if (x.shape[0] > kMaxSteps)
    importer.refuse(node,
                    format("its sequence has {} steps; {} are written out", x.shape[0], kMaxSteps));
  const Lstm lstm{importer,
                  node,
                  width,
                  of_one_direction(input_weight),
                  of_one_direction(importer.known(node, 2)),
                  joined_bias(importer, node, width)};
  Living h = start_state(importer, node, 5, width, x);
  Living c = start_state(importer, node, 6, width, x);
  std::vector<Living> rows;
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    Living row =
        importer.add_layer(node, "select", {{"index", i}}, {x}, {kBatchExtent, x.shape[2]});
    row.batch_axis = 0;
    lstm.step(row, h, c);
    Living out = importer.add_layer(node, "reshape", {{"shape", Shape{1, 1, width}}}, {h},
                                    {1, 1, kBatchExtent, width});
    out.batch_axis = 2;
    rows.push_back(out);
  }
  Living all = rows[0];
  if (rows.size() > 1) {
    all = importer.add_layer(node, "concat", {{"axis", std::int64_t{0}}}, rows,
                             {x.shape[0], 1, kBatchExtent, width});
  }
  importer.set_output(node, 0, all);
  importer.set_output(node, 1, as_state(importer, node, h, width));
  importer.set_output(node, 2, as_state(importer, node, c, width));
}

constexpr OnnxOperator kRecurrent[] = {{"LSTM", import_lstm}};

}  // namespace

std::span<const OnnxOperator> onnx_recurrent_operators() { return kRecurrent; }

}  // namespace harmonics::inline in_models
