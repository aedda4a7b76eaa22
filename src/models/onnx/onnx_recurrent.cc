// LSTM and GRU as the layers of these names: gates in another order, states as rows of the layer.
#include <algorithm>

#include "fold.h"
#include "onnx_operators.h"

namespace harmonics::inline in_models {
namespace {

/// What a node of either kind says of itself.
struct Recurrence {
  bool is_lstm = false;
  bool batch_first = false;
  std::int64_t width = 0, directions = 1, length = 0;
  /// For each gate of the layer, its place among ONNX's.
  std::vector<std::int64_t> order = {};

  [[nodiscard]] std::int64_t gates() const { return static_cast<std::int64_t>(order.size()); }
};

void check_settings(OnnxImporter& importer, const OnnxNode& node, const Recurrence& r,
                    const Living& x) {
  const bool fits = x.shape.size() == 3 && x.batch_axis == (r.batch_first ? 0U : 1U);
  if (!fits) {
    importer.refuse(node, r.batch_first ? "its input is not {batch, length, features}"
                                        : "its input is not {length, batch, features}; where the "
                                          "batch is axis 1, say --batch 1");
  }
  if (node.find("activations") != nullptr || node.find("clip") != nullptr ||
      node.integer("input_forget", 0) != 0 || importer.has_input(node, 7)) {
    importer.refuse(node, "peepholes, clipping and activations of its own are not covered");
  }
  if (!importer.has_input(node, 4)) return;
  for (const std::int64_t length : importer.known(node, 4).integers()) {
    if (length != r.length) importer.refuse(node, "its sequences have lengths of their own");
  }
}

Recurrence recurrence_of(OnnxImporter& importer, const OnnxNode& node, const Living& x) {
  Recurrence r;
  r.is_lstm = node.op == "LSTM";
  r.batch_first = node.integer("layout", 0) != 0;
  r.width = node.integer("hidden_size", 0);
  r.directions = node.text("direction", "forward") == "bidirectional" ? 2 : 1;
  // Ours are PyTorch's: input, forget, cell, output; reset, update, new.
  r.order = r.is_lstm ? std::vector<std::int64_t>{0, 2, 3, 1} : std::vector<std::int64_t>{1, 0, 2};
  r.length = x.shape.size() == 3 ? x.shape[r.batch_first ? 1 : 0] : 0;
  check_settings(importer, node, r, x);
  const Shape& weight = importer.known(node, 1).shape();
  if (r.width < 1 || r.width > kMaxElements / 8 ||
      weight != Shape{r.directions, r.gates() * r.width, x.shape[2]} ||
      importer.known(node, 2).shape() != Shape{r.directions, r.gates() * r.width, r.width}) {
    importer.refuse(node, "its weights do not fit its hidden size");
  }
  return r;
}

// The rows of one direction from row `first` on, with the gates in our order.
Constant ordered(const Constant& all, const Recurrence& r, std::int64_t direction,
                 std::int64_t first) {
  const std::int64_t columns = all.shape().size() == 3 ? all.shape()[2] : 1;
  const std::int64_t rows = r.gates() * r.width;
  const std::int64_t begin = direction * all.shape()[1] + first;
  const Shape shape = all.shape().size() == 3 ? Shape{rows, columns} : Shape{rows};
  return all.moved(shape, [&](std::int64_t place) {
    const std::int64_t row = place / columns;
    const std::int64_t gate = r.order[static_cast<std::size_t>(row / r.width)];
    return (begin + gate * r.width + row % r.width) * columns + place % columns;
  });
}

void set_parameters(OnnxImporter& importer, const OnnxNode& node, const Recurrence& r,
                    const Living& layer) {
  const std::int64_t rows = r.gates() * r.width;
  for (std::int64_t way = 0; way < r.directions; ++way) {
    const auto set = [&](const char* name, const Constant& value) {
      importer.set_weight(layer, format("{}.{}", name, way), value);
    };
    set("weight_ih", ordered(importer.known(node, 1), r, way, 0));
    set("weight_hh", ordered(importer.known(node, 2), r, way, 0));
    if (!importer.has_input(node, 3)) continue;
    if (importer.known(node, 3).shape() != Shape{r.directions, 2 * rows})
      importer.refuse(node, "its bias does not fit its hidden size");
    set("bias_ih", ordered(importer.known(node, 3), r, way, 0));
    set("bias_hh", ordered(importer.known(node, 3), r, way, rows));
  }
}

// A start state, {directions, batch, width} or with the batch first: a tensor, a constant, or
// zeros.
Living start_state(OnnxImporter& importer, const OnnxNode& node, const Recurrence& r,
                   std::size_t index, const Living& x) {
  Living like = x;
  like.shape = {r.directions, kBatchExtent, r.width};
  like.batch_axis = 1;
  if (r.batch_first) {
    std::swap(like.shape[0], like.shape[1]);
    like.batch_axis = 0;
  }
  if (!importer.has_input(node, index)) {
    Shape zeros = like.shape;
    zeros[like.batch_axis] = 1;
    return importer.constant_layer(node, Constant::filled(zeros, Constant::of_reals({1}, {0})),
                                   like);
  }
  if (const Constant* value = importer.constant(node, index)) {
    // The zeros that a file makes for a batch of unknown size are one row.
    return importer.constant_layer(node, *value, like);
  }
  const Living given = importer.living(node, index);
  if (given.shape != like.shape || given.batch_axis != like.batch_axis)
    importer.refuse(node, format("its start state is not {}", shape_text(like.shape)));
  return given;
}

// Rows `first` … of the layer, seen as `shape` with the batch at `batch_axis`.
Living rows_of(OnnxImporter& importer, const OnnxNode& node, const Living& layer, SliceRange range,
               std::pair<Shape, std::size_t> seen) {
  Living part = layer;
  if (range.count != layer.shape[0]) {
    part = importer.add_layer(
        node, "slice", {{"axis", std::int64_t{0}}, {"begin", range.begin}, {"count", range.count}},
        {layer}, {range.count, kBatchExtent, layer.shape[2]});
  }
  return importer.reshaped(node, part, std::move(seen.first), seen.second);
}

void import_recurrent(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const Recurrence r = recurrence_of(importer, node, x);
  std::vector<Living> inputs = {x};
  const bool starts = importer.has_input(node, 5) || importer.has_input(node, 6);
  for (std::size_t i = 5; starts && i < (r.is_lstm ? 7U : 6U); ++i)
    inputs.push_back(start_state(importer, node, r, i, x));
  const bool states = importer.wants(node, 1) || importer.wants(node, 2);
  const std::int64_t all = r.length + (!states ? 0 : r.is_lstm ? 2 : 1);
  Attributes attributes = {{"width", r.width},
                           {"directions", r.directions},
                           {"bias", std::int64_t{importer.has_input(node, 3)}}};
  if (node.text("direction", "forward") == "reverse") attributes["reverse"] = std::int64_t{1};
  if (!r.is_lstm) attributes["linear_before_reset"] = node.integer("linear_before_reset", 0);
  if (states) attributes["states"] = std::int64_t{1};
  Living layer = importer.add_layer(node, r.is_lstm ? "lstm" : "gru", std::move(attributes), inputs,
                                    {all, kBatchExtent, r.directions * r.width});
  layer.batch_axis = 1;
  set_parameters(importer, node, r, layer);
  const Shape rows = r.batch_first ? Shape{kBatchExtent, r.length, r.directions, r.width}
                                   : Shape{r.length, r.directions, kBatchExtent, r.width};
  const Shape state = r.batch_first ? Shape{kBatchExtent, r.directions, r.width}
                                    : Shape{r.directions, kBatchExtent, r.width};
  const auto give = [&](std::size_t output, SliceRange range, const Shape& shape,
                        std::size_t batch) {
    if (!importer.wants(node, output)) return;
    importer.set_output(node, output,
                        rows_of(importer, node, layer, range, {shape, r.batch_first ? 0 : batch}));
  };
  give(0, {0, r.length, 1}, rows, 2);
  give(1, {r.length, 1, 1}, state, 1);
  if (r.is_lstm) give(2, {r.length + 1, 1, 1}, state, 1);
}

constexpr OnnxOperator kRecurrent[] = {{"GRU", import_recurrent}, {"LSTM", import_recurrent}};

}  // namespace

std::span<const OnnxOperator> onnx_recurrent_operators() { return kRecurrent; }

}  // namespace harmonics::inline in_models
