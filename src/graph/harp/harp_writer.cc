// A graph as .harp text.
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/graph/harp.h>

#include "harp_lexer.h"

namespace harmonics::inline in_graph {
namespace {

// A name stays bare, anything else is put in quotes.
std::string label_text(const std::string& text) {
  return is_user_name(text) ? text : in_quotes(text);
}

std::string value_text(const Attribute& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return attribute_text(value);
  return *text == "true" || *text == "false" ? in_quotes(*text) : label_text(*text);
}

std::string arrow_text(const std::string& activation) {
  return activation.empty() ? "->" : format("-({})->", activation);
}

std::string axis_text(const AxisNode& node) {
  const std::string value = node.value == node.ceiling ? "" : format(" = {}", node.value);
  return format("axis {}{} <= {};", node.name, value, node.ceiling);
}

std::string producer_text(const ProducerNode& node) {
  std::string text = format("producer {}", node.name);
  if (node.shape) text += format(" {}", named_shape_text(*node.shape, node.extents));
  if (node.dtype != DType::kFloat32) text += format(" {}", dtype_name(node.dtype));
  if (node.gradient_slots != 0) text += format(" gradients {}", node.gradient_slots);
  return text + ";";
}

std::string consumer_text(const ConsumerNode& node) {
  std::string text = format("consumer {}", node.name);
  if (node.shape) text += format(" {}", named_shape_text(*node.shape, node.extents));
  if (node.gradient_slots != 0) text += format(" gradients {}", node.gradient_slots);
  return text + ";";
}

std::string layer_text(const LayerNode& node) {
  std::string text = format("layer {}", node.name);
  if (node.type != "linear" || !node.attributes.empty()) text += format(" {}", node.type);
  const std::string attributes = joined(node.attributes, ", ", [](const auto& one) {
    return format("{}={}", one.first, value_text(one.second));
  });
  if (!attributes.empty()) text += format("({})", attributes);
  if (node.ratio) {
    text += format(" {}/{} {}", node.ratio->numerator, node.ratio->denominator, node.ratio->of);
  }
  return text + ";";
}

std::string layers_text(const std::vector<LayerNode>& layers) {
  std::string text;
  std::string group;
  for (const LayerNode& layer : layers) {
    if (layer.group != group) {
      if (!group.empty()) text += "  }\n";
      if (!layer.group.empty()) text += format("  group {} {{\n", label_text(layer.group));
      group = layer.group;
    }
    text += format("{}{}\n", group.empty() ? "  " : "    ", layer_text(layer));
  }
  if (!group.empty()) text += "  }\n";
  return text;
}

// Chains stay chains: a layer that takes only its predecessor's output goes on with its line.
std::string flows_text(const HarmonicGraph& graph) {
  std::string text;
  const std::string* last = nullptr;
  for (const LayerNode& layer : graph.layers()) {
    if (layer.inputs.empty()) continue;
    if (last != nullptr && layer.inputs.size() == 1 && layer.inputs[0] == *last) {
      text += format("\n      {} {}", arrow_text(layer.activation), layer.name);
    } else {
      text += format("{}    {} {} {}", last == nullptr ? "" : ";\n", listed(layer.inputs),
                     arrow_text(layer.activation), layer.name);
    }
    last = &layer.name;
  }
  if (last != nullptr) text += ";\n";
  for (const ConsumerNode& consumer : graph.consumers()) {
    text += format("    {} {} {}{};\n", consumer.input, arrow_text(consumer.activation),
                   graph.layer_index(consumer.name) ? "consumer " : "", consumer.name);
  }
  for (const TrainingTap& tap : graph.taps()) {
    const std::string weight =
        tap.weight == 1.0 ? "" : format(" * {}", attribute_text(Attribute{tap.weight}));
    text += format("    {} <-({}{})- {};\n", tap.prediction, tap.loss, weight, tap.target);
  }
  return text;
}

}  // namespace

std::string to_harp(const HarmonicGraph& graph) {
  std::string text = format("harmonic {} {{\n", label_text(graph.name()));
  for (const AxisNode& node : graph.axes()) text += format("  {}\n", axis_text(node));
  for (const ProducerNode& node : graph.producers()) text += format("  {}\n", producer_text(node));
  for (const ConsumerNode& node : graph.consumers()) text += format("  {}\n", consumer_text(node));
  text += format("\n{}\n  cycle {{\n{}  }}\n}}\n", layers_text(graph.layers()), flows_text(graph));
  return text;
}

}  // namespace harmonics::inline in_graph
