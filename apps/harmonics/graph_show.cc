// harmonics graph show: the layers of a graph as a table.
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/harp.h>
#include <harmonics/options/graph_argument.h>

#include "repeated_groups.h"
#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

constexpr const char* kUnknown = "?";

struct LayerRow {
  const LayerNode& node;
  std::optional<TensorSpec> output;
  /// As .harp spells it, with the names of axes.
  std::string shape;
  bool named = false;
  std::int64_t parameters = 0;
  double flops = 0;
};

LayerRow row_of(const HarmonicGraph& graph, std::size_t index) {
  LayerRow row{graph.layers()[index], std::nullopt, {}, false, 0, 0};
  if (!graph.resolved()) return row;
  const LayerShape& shape = graph.layer_shape(index);
  row.output = shape.output;
  row.shape = graph.shape_text_of(row.node.name);
  row.named = !graph.named_extents(row.node.name).empty();
  row.flops = shape.flops;
  for (const ParameterSpec& parameter : shape.parameters) {
    const bool owned = parameter.tied_to.empty() || parameter.away;
    if (parameter.trainable && owned) row.parameters += element_count(parameter.shape);
  }
  return row;
}

double total_flops(const HarmonicGraph& graph) {
  double sum = 0;
  for (std::size_t i = 0; graph.resolved() && i < graph.layers().size(); ++i) {
    sum += graph.layer_shape(i).flops;
  }
  return sum;
}

std::string type_text(const LayerNode& node) {
  return node.activation.empty() ? node.type : format("{} + {}", node.type, node.activation);
}

// "image: float32 {64}"
std::string producer_text(const ProducerNode& node) {
  return format("{} {} {}", node.name, dtype_name(node.dtype),
                node.shape ? named_shape_text(*node.shape, node.extents) : kUnknown);
}

std::string consumer_text(const ConsumerNode& node) {
  if (node.activation.empty()) return format("{} = {}", node.name, node.input);
  return format("{} = {}({})", node.name, node.activation, node.input);
}

std::string tap_text(const TrainingTap& tap) {
  const std::string loss = format("{}({}, {})", tap.loss, tap.prediction, tap.target);
  return tap.weight == 1.0 ? loss : format("{} * {}", loss, tap.weight);
}

template <typename Nodes, typename Text>
std::string listing(const char* title, const Nodes& nodes, Text text) {
  std::string lines;
  for (const auto& node : nodes) lines += format("{:<10}{}\n", title, text(node));
  return lines;
}

// " with T = 128": what the costs stand for.
std::string axis_values_text(const HarmonicGraph& graph) {
  std::string text;
  for (const AxisNode& axis : graph.axes()) {
    text += format("{}{} = {}", text.empty() ? " with " : ", ", axis.name, axis.value);
  }
  return text;
}

// "h.0", or "h.0 … h.11 (12 x)" for blocks that repeat.
std::string group_text(const HarmonicGraph& graph, const LayerRun& run) {
  const std::string& first = graph.layers()[run.first].group;
  if (run.times == 1) return first;
  const std::size_t last = run.first + (run.times - 1) * run.size;
  return format("{} … {} ({} x)", first, graph.layers()[last].group, run.times);
}

std::string table_text(const HarmonicGraph& graph, bool colour) {
  bool grouped = false;
  for (const LayerNode& node : graph.layers()) grouped |= !node.group.empty();
  Table table{
      {{"layer"}, {"type"}, {"output"}, {"parameters", Align::kRight}, {"flops", Align::kRight}},
      {}};
  if (grouped) table.columns.push_back({"group"});
  for (const LayerRun& run : layer_runs(graph)) {
    for (std::size_t i = run.first; i < run.first + run.size; ++i) {
      const LayerRow row = row_of(graph, i);
      const bool known = row.output.has_value();
      table.rows.push_back({row.node.name, type_text(row.node), known ? row.shape : kUnknown,
                            known ? with_thousands(row.parameters) : kUnknown,
                            known ? in_short(row.flops) : kUnknown});
      if (grouped) table.rows.back().push_back(group_text(graph, run));
    }
  }
  std::string text = bold(graph.name(), colour) + "\n\n";
  text += listing("axis", graph.axes(),
                  [](const AxisNode& axis) { return format("{} <= {}", axis.name, axis.ceiling); });
  text += listing("producer", graph.producers(), producer_text);
  text += listing("consumer", graph.consumers(), consumer_text);
  text += listing("loss", graph.taps(), tap_text);
  text += format("\n{}\n", table.text(colour));
  if (graph.resolved()) {
    return text + format("{} layers, {} parameters, {} flops per sample{}\n", graph.layers().size(),
                         with_thousands(graph.parameter_count()), in_short(total_flops(graph)),
                         axis_values_text(graph));
  }
  return text + format("{} layers; shapes follow from the data that is bound to {}\n",
                       graph.layers().size(), listed(graph.unresolved()));
}

Json shape_json(const Shape& shape) {
  Json json = Json::array();
  for (const std::int64_t axis : shape) json.push(axis);
  return json;
}

Json layer_json(const LayerRow& row) {
  Json json;
  json.set("name", row.node.name).set("type", row.node.type);
  json.set("activation", row.node.activation).set("group", row.node.group);
  Json inputs = Json::array();
  for (const std::string& input : row.node.inputs) inputs.push(input);
  json.set("inputs", std::move(inputs));
  if (row.output) {
    json.set("output", shape_json(row.output->shape)).set("dtype", dtype_name(row.output->dtype));
    if (row.named) json.set("named_output", row.shape);
    json.set("parameters", row.parameters).set("flops", row.flops);
  }
  return json;
}

// The layer's parameters by their full names, as they stand in a checkpoint.
Json tensors_json(const HarmonicGraph& graph, std::size_t index) {
  Json tensors = Json::array();
  for (const ParameterSpec& parameter : graph.layer_shape(index).parameters) {
    tensors.push(Json()
                     .set("name", parameter_name(graph.layers()[index], parameter))
                     .set("shape", shape_json(parameter.shape))
                     .set("trainable", parameter.trainable));
  }
  return tensors;
}

Json graph_json(const HarmonicGraph& graph) {
  Json producers = Json::array();
  for (const ProducerNode& node : graph.producers()) {
    Json json;
    json.set("name", node.name).set("dtype", dtype_name(node.dtype));
    json.set("shape", node.shape ? shape_json(*node.shape) : Json());
    if (!node.extents.empty()) {
      json.set("named_shape", named_shape_text(*node.shape, node.extents));
    }
    producers.push(std::move(json));
  }
  Json layers = Json::array();
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    Json layer = layer_json(row_of(graph, i));
    if (graph.resolved()) layer.set("tensors", tensors_json(graph, i));
    layers.push(std::move(layer));
  }
  Json consumers = Json::array();
  for (const ConsumerNode& node : graph.consumers()) {
    consumers.push(
        Json().set("name", node.name).set("input", node.input).set("activation", node.activation));
  }
  Json taps = Json::array();
  for (const TrainingTap& tap : graph.taps()) {
    taps.push(Json()
                  .set("loss", tap.loss)
                  .set("prediction", tap.prediction)
                  .set("target", tap.target)
                  .set("weight", tap.weight));
  }
  Json json;
  json.set("name", graph.name()).set("resolved", graph.resolved());
  Json axes = Json::array();
  for (const AxisNode& axis : graph.axes()) {
    axes.push(Json().set("name", axis.name).set("ceiling", axis.ceiling).set("value", axis.value));
  }
  if (!graph.axes().empty()) json.set("axes", std::move(axes));
  json.set("producers", std::move(producers)).set("layers", std::move(layers));
  json.set("consumers", std::move(consumers)).set("losses", std::move(taps));
  if (graph.resolved()) {
    json.set("parameters", graph.parameter_count()).set("flops", total_flops(graph));
  }
  return json;
}

}  // namespace

int graph_show(const GraphShowCommand& command) {
  const HarmonicGraph graph = open_graph_document(command.file).graph.with_fixed_axes(command.axes);
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, table_text(graph, wants_colour(TextStream::kOutput)));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, graph_json(graph).dump(2) + "\n");
      break;
    case OutputStyle::kQuiet: {
      std::string names;
      for (const LayerNode& node : graph.layers()) names += node.name + "\n";
      write_text(TextStream::kOutput, names);
      break;
    }
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
