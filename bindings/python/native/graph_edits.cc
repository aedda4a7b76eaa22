#include "graph_edits.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace harmonics::python {
namespace {

using Edits = std::map<std::string, LayerEdit>;

std::string renamed_to(const Edits& edits, const std::string& name) {
  const auto found = edits.find(name);
  return found == edits.end() || found->second.name.empty() ? name : found->second.name;
}

// The parameter "<layer>.<rest>" under the layer's new name.
std::string parameter_renamed_to(const Edits& edits, const HarmonicGraph& graph,
                                 const std::string& parameter) {
  for (std::size_t dot = parameter.rfind('.'); dot != std::string::npos && dot > 0;
       dot = parameter.rfind('.', dot - 1)) {
    const std::string layer = parameter.substr(0, dot);
    if (graph.layer_index(layer)) return renamed_to(edits, layer) + parameter.substr(dot);
  }
  return parameter;
}

GraphBuilder copied(const HarmonicGraph& graph, const std::string& name, const Edits& edits) {
  GraphBuilder builder(name);
  for (const AxisNode& axis : graph.axes()) builder.add(axis);
  for (const ProducerNode& producer : graph.producers()) builder.add(producer);
  for (LayerNode layer : graph.layers()) {
    const auto edit = edits.find(layer.name);
    if (edit != edits.end()) {
      for (const auto& [name, value] : edit->second.attributes) layer.attributes[name] = value;
    }
    layer.name = renamed_to(edits, layer.name);
    for (std::string& input : layer.inputs) input = renamed_to(edits, input);
    if (layer.ratio) layer.ratio->of = renamed_to(edits, layer.ratio->of);
    builder.add(std::move(layer));
  }
  for (ConsumerNode consumer : graph.consumers()) {
    consumer.input = renamed_to(edits, consumer.input);
    builder.add(std::move(consumer));
  }
  for (TrainingTap tap : graph.taps()) {
    tap.prediction = renamed_to(edits, tap.prediction);
    tap.target = renamed_to(edits, tap.target);
    builder.add(std::move(tap));
  }
  return builder;
}

// The tensor that a loss looks at.
std::string judged(const HarmonicGraph& graph, const std::string& wish) {
  const auto& consumers = graph.consumers();
  const auto found =
      wish.empty() ? consumers.begin() : std::ranges::find(consumers, wish, &ConsumerNode::name);
  if (wish.empty() && consumers.size() != 1) {
    fail(ErrorCode::kInvalidArgument,
         "graph '{}' has {} consumers ({}): say which one the loss looks at", graph.name(),
         consumers.size(), listed(consumers, [](const ConsumerNode& one) { return one.name; }));
  }
  if (found == consumers.end()) return wish;
  if (!found->activation.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "consumer '{}' shows {} of '{}': a loss looks at a layer, so name that one if it is meant",
         found->name, found->activation, found->input);
  }
  return found->input;
}

ProducerNode target_for(const HarmonicGraph& graph, const std::string& loss,
                        const std::string& prediction, const std::string& name) {
  ProducerNode target;
  target.name = name;
  Shape shape = graph.spec(prediction).shape;
  if (loss == "cross_entropy" || loss == "next_token") {
    target.dtype = DType::kInt64;
    if (!shape.empty()) shape.pop_back();
    if (shape.empty()) shape.push_back(1);
  }
  target.shape = std::move(shape);
  return target;
}

// A tied parameter stands under its owner's name.
std::map<std::string, Shape> parameter_shapes(const HarmonicGraph& graph) {
  std::map<std::string, Shape> shapes;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    for (const ParameterSpec& parameter : graph.layer_shape(i).parameters) {
      shapes.emplace(parameter_name(graph.layers()[i], parameter), parameter.shape);
    }
  }
  return shapes;
}

std::map<std::string, Tensor> read_all(const Model& model) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] : model.weights.entries())
    tensors.emplace(name, model.weights.read(name));
  return tensors;
}

}  // namespace

Model with_loss(const Model& model, const std::string& loss, const std::string& target,
                const std::string& prediction, double weight) {
  const HarmonicGraph& graph = model.graph();
  const std::string layer = judged(graph, prediction);
  GraphBuilder builder = copied(graph, graph.name(), {});
  if (!graph.producer_index(target)) builder.add(target_for(graph, loss, layer, target));
  builder.tap(loss, layer, target, weight);
  Model made = model;
  made.document.graph = builder.build();
  return made;
}

Model edited(const Model& model, const std::string& name, const Edits& edits) {
  const HarmonicGraph& graph = model.graph();
  for (const auto& [layer, edit] : edits) {
    if (!graph.layer_index(layer)) {
      fail(ErrorCode::kNotFound, "graph '{}' has no layer '{}'", graph.name(), layer);
    }
  }
  Model made = model;
  made.document.graph = copied(graph, name, edits).build();
  const std::map<std::string, Shape> kept = parameter_shapes(made.graph());
  std::map<std::string, Tensor> tensors;
  for (auto& [parameter, tensor] : read_all(model)) {
    const std::string now = parameter_renamed_to(edits, graph, parameter);
    if (kept.contains(now)) tensors.emplace(now, std::move(tensor));
  }
  made.weights = {};
  made.weights.hold(std::move(tensors));
  made.origins.clear();
  for (const auto& [parameter, origin] : model.origins) {
    made.origins.emplace(parameter_renamed_to(edits, graph, parameter), origin);
  }
  return made;
}

namespace {

void check_fit(const HarmonicGraph& graph, const std::map<std::string, Tensor>& tensors) {
  const std::map<std::string, Shape> shapes = parameter_shapes(graph);
  for (const auto& [name, tensor] : tensors) {
    const auto found = shapes.find(name);
    if (found == shapes.end())
      fail(ErrorCode::kNotFound, "graph '{}' has no parameter '{}'", graph.name(), name);
    if (found->second != tensor.shape()) {
      fail(ErrorCode::kInvalidArgument, "parameter '{}' is {} in the graph, {} was given", name,
           shape_text(found->second), shape_text(tensor.shape()));
    }
  }
}

}  // namespace

Model with_tensors(const Model& model, std::map<std::string, Tensor> tensors) {
  if (model.graph().resolved()) check_fit(model.graph(), tensors);
  tensors.merge(read_all(model));
  Model made = model;
  made.weights = {};
  made.weights.hold(std::move(tensors));
  return made;
}

}  // namespace harmonics::python
