#include <harmonics/graph/graph.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "builtin/shared_attributes.h"

namespace harmonics::inline in_graph {
namespace {

// A width of kMaxTensorElements times this still fits in 64 bits.
constexpr std::int64_t kMaxRatioTerm = 1'000'000;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9') || c == '.'; }

// Fills in defaults; a missing or unknown attribute is an error that lists what there is.
Attributes complete_attributes(const LayerNode& layer, const LayerType& type) {
  Attributes full = layer.attributes;
  std::vector<std::string> known;
  for (const AttributeSpec& spec : type.attributes) {
    known.push_back(spec.name);
    if (full.contains(spec.name)) continue;
    if (spec.fallback) full.emplace(spec.name, *spec.fallback);
    if (spec.required) {
      fail(ErrorCode::kInvalidArgument, "layer '{}' ({}): '{}' is missing", layer.name, layer.type,
           spec.name);
    }
  }
  for (const auto& [name, value] : layer.attributes) {
    if (is_shared_attribute(name)) continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(ErrorCode::kInvalidArgument, "layer '{}' ({}): unknown attribute '{}'; it takes: {}",
           layer.name, layer.type, name, listed(known));
    }
  }
  return full;
}

void check_attribute(const LayerNode& layer, const std::string& name, const Attribute& value) {
  const auto* real = std::get_if<double>(&value);
  const auto* text = std::get_if<std::string>(&value);
  const auto* list = std::get_if<Shape>(&value);
  if ((real != nullptr && !std::isfinite(*real)) ||
      (text != nullptr && text->size() > kMaxAttributeTextLength) ||
      (list != nullptr && list->size() > kMaxShapeAxes)) {
    fail(ErrorCode::kInvalidArgument,
         "layer '{}' ({}): '{}' must be a finite number, a text of at most {} characters or a list "
         "of at most {} numbers",
         layer.name, layer.type, name, kMaxAttributeTextLength, kMaxShapeAxes);
  }
}

// Refuses a tensor that is empty or larger than kMaxTensorElements; `owner` is "layer 'x'
// (linear)".
void check_size(const std::string& owner, const Shape& shape) {
  if (shape.size() > kMaxShapeAxes) {
    fail(ErrorCode::kInvalidArgument, "{} has a tensor with {} axes; at most {} are possible",
         owner, shape.size(), kMaxShapeAxes);
  }
  std::int64_t count = 1;
  for (const std::int64_t axis : shape) {
    if (axis < 1 || axis > kMaxTensorElements / count) {
      fail(ErrorCode::kInvalidArgument,
           "{} has a tensor of shape {}; every axis must be positive and all together at most {}",
           owner, shape_text(shape), kMaxTensorElements);
    }
    count *= axis;
  }
}

// What the layer's type answers. Every error names the layer, also one that its type did not
// phrase.
LayerShape infer_layer(const LayerNode& layer, const LayerType& type, const LayerQuery& query) {
  const std::string owner = format("layer '{}' ({})", layer.name, layer.type);
  LayerShape shape;
  try {
    shape = type.infer(query);
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.find(owner) != std::string::npos) throw;
    throw Error(error.code(), owner + ": " + what);
  }
  check_size(owner, shape.output.shape);
  for (const ParameterSpec& parameter : shape.parameters) check_size(owner, parameter.shape);
  return shape;
}

void check_activation(const std::string& owner, const std::string& activation) {
  if (!activation.empty() && find_activation_type(activation) == nullptr) {
    fail(ErrorCode::kInvalidArgument, "'{}' uses the unknown activation '{}'; there are: {}", owner,
         activation, listed(activation_type_names()));
  }
}

}  // namespace

bool is_user_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength && is_name_start(name[0]) &&
         std::all_of(name.begin(), name.end(), is_name_part);
}

bool is_boundary_name(std::string_view name) {
  if (name.size() > kMaxBoundaryNameLength) return false;
  const std::size_t at = name.rfind('@');
  if (at == std::string_view::npos || at + 1 == name.size()) return false;
  const std::string_view part = name.substr(at + 1);
  const std::string_view layer = name.substr(0, at);
  return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         (is_user_name(layer) || is_boundary_name(layer));
}

GraphBuilder& GraphBuilder::producer(std::string name, std::optional<Shape> shape, DType dtype) {
  return add(ProducerNode{std::move(name), std::move(shape), dtype});
}
GraphBuilder& GraphBuilder::layer(std::string name, std::string type, Attributes attributes,
                                  std::vector<std::string> inputs, std::string activation) {
  return add(LayerNode{std::move(name), std::move(type), std::move(attributes), std::nullopt,
                       std::move(inputs), std::move(activation), group_});
}
GraphBuilder& GraphBuilder::consumer(std::string name, std::string input, std::string activation) {
  return add(ConsumerNode{std::move(name), std::move(input), std::move(activation)});
}
GraphBuilder& GraphBuilder::tap(std::string loss, std::string prediction, std::string target,
                                double weight) {
  return add(TrainingTap{std::move(loss), std::move(prediction), std::move(target), weight});
}
GraphBuilder& GraphBuilder::group(std::string name) {
  group_ = std::move(name);
  return *this;
}
GraphBuilder& GraphBuilder::add(ProducerNode node) {
  graph_.producers_.push_back(std::move(node));
  return *this;
}
GraphBuilder& GraphBuilder::add(LayerNode node) {
  graph_.layers_.push_back(std::move(node));
  return *this;
}
GraphBuilder& GraphBuilder::add(ConsumerNode node) {
  graph_.consumers_.push_back(std::move(node));
  return *this;
}
GraphBuilder& GraphBuilder::add(TrainingTap tap) {
  graph_.taps_.push_back(std::move(tap));
  return *this;
}

HarmonicGraph GraphBuilder::build() const {
  HarmonicGraph graph = graph_;
  graph.check_limits();
  graph.check_names();
  graph.check_axes();
  graph.check_references();
  graph.sort_layers();
  graph.infer_shapes();
  graph.check_consumers_and_taps();
  graph.follow_axes();
  return graph;
}

void HarmonicGraph::check_limits() const {
  if (name_.size() > kMaxNameLength) {
    fail(ErrorCode::kInvalidArgument, "a graph's name may have {} characters, this one has {}",
         kMaxNameLength, name_.size());
  }
  if (producers_.size() + layers_.size() + consumers_.size() + taps_.size() > kMaxGraphNodes) {
    fail(ErrorCode::kInvalidArgument, "graph '{}' has more than {} nodes", name_, kMaxGraphNodes);
  }
  std::size_t edges = 0;
  for (const LayerNode& layer : layers_) {
    edges += layer.inputs.size();
    if (layer.inputs.size() > kMaxLayerInputs) {
      fail(ErrorCode::kInvalidArgument, "layer '{}' has {} inputs; at most {} are possible",
           layer.name, layer.inputs.size(), kMaxLayerInputs);
    }
    if (layer.group.size() > kMaxNameLength) {
      fail(ErrorCode::kInvalidArgument, "layer '{}': its group's name is longer than {} characters",
           layer.name, kMaxNameLength);
    }
  }
  if (edges > kMaxGraphEdges) {
    fail(ErrorCode::kInvalidArgument, "graph '{}' has {} connections; at most {} are possible",
         name_, edges, kMaxGraphEdges);
  }
}

void HarmonicGraph::check_names() const {
  std::set<std::string_view> seen;
  const auto claim = [&](const char* kind, const std::string& name) {
    if (!is_user_name(name) && !is_boundary_name(name)) {
      fail(ErrorCode::kInvalidArgument,
           "{} name '{}' is not valid: use a letter or _, then letters, digits, _ or dots", kind,
           name);
    }
    if (!seen.insert(name).second) {
      fail(ErrorCode::kAlreadyExists, "the name '{}' is used twice in graph '{}'", name, name_);
    }
  };
  for (const auto& node : producers_) claim("producer", node.name);
  for (const auto& node : layers_) claim("layer", node.name);
  seen.clear();  // a consumer may carry the name of what it consumes
  for (const auto& node : consumers_) claim("consumer", node.name);
}

void HarmonicGraph::check_layer(const LayerNode& layer) const {
  const LayerType* type = find_layer_type(layer.type);
  if (type == nullptr) {
    fail(ErrorCode::kInvalidArgument, "layer '{}' has the unknown type '{}'; there are: {}",
         layer.name, layer.type, listed(layer_type_names()));
  }
  check_shared_attributes(layer);
  const std::size_t given = layer.inputs.size() - (takes_weight(layer) ? 1 : 0);
  if (layer.inputs.size() < given || given < type->min_inputs || given > type->max_inputs) {
    fail(ErrorCode::kInvalidArgument, "layer '{}' ({}) takes {} input{}, it has {}", layer.name,
         layer.type,
         type->max_inputs == type->min_inputs ? format("{}", type->min_inputs)
                                              : format("at least {}", type->min_inputs),
         type->max_inputs == 1 ? "" : "s", layer.inputs.size());
  }
  check_activation(layer.name, layer.activation);
  for (const auto& [name, value] : layer.attributes) check_attribute(layer, name, value);
  complete_attributes(layer, *type);  // a missing or unknown attribute is an error at once
  if (layer.ratio && layer.type != "linear") {
    fail(ErrorCode::kInvalidArgument, "layer '{}' ({}): only a linear layer takes a ratio",
         layer.name, layer.type);
  }
}

void HarmonicGraph::check_references() const {
  std::set<std::string_view> tensors;
  for (const auto& node : producers_) tensors.insert(node.name);
  for (const auto& node : layers_) tensors.insert(node.name);
  const auto need = [&](const std::string& user, const std::string& name) {
    if (!tensors.contains(name)) {
      fail(ErrorCode::kNotFound, "'{}' uses '{}', which is neither a producer nor a layer", user,
           name);
    }
  };
  for (const LayerNode& layer : layers_) {
    for (const std::string& input : layer.inputs) need(layer.name, input);
    if (layer.ratio) need(layer.name, layer.ratio->of);
    check_layer(layer);
  }
  for (const ConsumerNode& consumer : consumers_) {
    need(consumer.name, consumer.input);
    check_activation(consumer.name, consumer.activation);
  }
  for (const TrainingTap& tap : taps_) {
    need(tap.loss, tap.prediction);
    need(tap.loss, tap.target);
    if (find_loss_type(tap.loss) == nullptr) {
      fail(ErrorCode::kInvalidArgument, "unknown loss '{}'; there are: {}", tap.loss,
           listed(loss_type_names()));
    }
  }
}

// Kahn's algorithm, always taking the ready layer that was declared first: stable, so that a part
// cut out of a sorted graph keeps its order.
void HarmonicGraph::sort_layers() {
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < layers_.size(); ++i) index[layers_[i].name] = i;
  std::vector<std::size_t> waiting(layers_.size(), 0);
  std::vector<std::vector<std::size_t>> users(layers_.size());
  const auto depend = [&](std::size_t user, const std::string& on) {
    if (const auto found = index.find(on); found != index.end()) {
      users[found->second].push_back(user);
      ++waiting[user];
    }
  };
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (const std::string& input : layers_[i].inputs) depend(i, input);
    if (layers_[i].ratio) depend(i, layers_[i].ratio->of);
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<LayerNode> sorted;
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    sorted.push_back(layers_[next]);
    for (const std::size_t user : users[next]) {
      if (--waiting[user] == 0) ready.push(user);
    }
  }
  if (sorted.size() != layers_.size()) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (waiting[i] != 0) {
        fail(ErrorCode::kInvalidArgument, "layer '{}' depends on itself: the graph has a loop",
             layers_[i].name);
      }
    }
  }
  layers_ = std::move(sorted);
  layer_indices_.clear();
  for (std::size_t i = 0; i < layers_.size(); ++i) layer_indices_[layers_[i].name] = i;
}

void HarmonicGraph::infer_shapes() {
  warnings_.clear();
  unresolved_.clear();
  specs_.clear();
  shapes_.clear();
  full_attributes_.clear();
  for (const ProducerNode& producer : producers_) {
    if (!producer.shape) {
      unresolved_.push_back(producer.name);
      continue;
    }
    check_size(format("producer '{}'", producer.name), *producer.shape);
    specs_[producer.name] = {*producer.shape, producer.dtype};
  }
  if (!resolved()) return;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerNode& layer = layers_[i];
    const LayerType& type = *find_layer_type(layer.type);
    Attributes attributes = complete_attributes(layer, type);
    if (layer.type == "linear") complete_linear(i, attributes);
    std::vector<TensorSpec> inputs;
    for (const std::string& input : layer.inputs) inputs.push_back(specs_.at(input));
    if (takes_weight(layer)) inputs.pop_back();
    LayerShape shape = infer_layer(layer, type, {layer.name, layer.type, inputs, attributes});
    if (!layer.activation.empty()) {
      for (ParameterSpec parameter : find_activation_type(layer.activation)->parameters) {
        parameter.name = layer.activation + "." + parameter.name;
        shape.parameters.push_back(std::move(parameter));
      }
    }
    specs_[layer.name] = shape.output;
    shapes_.push_back(std::move(shape));
    full_attributes_.push_back(std::move(attributes));
  }
  share_parameters();
}

// Works out the width of a linear layer that has no `out`: its ratio, else its target, else its
// input.
void HarmonicGraph::complete_linear(std::size_t index, Attributes& attributes) {
  const LayerNode& layer = layers_[index];
  if (attributes.contains("out")) {
    if (layer.ratio) {
      fail(ErrorCode::kInvalidArgument, "layer '{}' has both a ratio and 'out'; give one of them",
           layer.name);
    }
    return;
  }
  std::optional<std::int64_t> target_width;
  for (const TrainingTap& tap : taps_) {
    const auto target = specs_.find(tap.target);
    if (tap.prediction == layer.name && target != specs_.end() &&
        is_floating(target->second.dtype) && !target->second.shape.empty()) {
      target_width = target->second.shape.back();
    }
  }
  std::int64_t width = 0;
  if (layer.ratio) {
    const Shape& of = specs_.at(layer.ratio->of).shape;
    if (layer.ratio->denominator <= 0 || layer.ratio->numerator <= 0 ||
        layer.ratio->numerator > kMaxRatioTerm || of.empty()) {
      fail(ErrorCode::kInvalidArgument, "layer '{}' has the impossible ratio {}/{} {}", layer.name,
           layer.ratio->numerator, layer.ratio->denominator, layer.ratio->of);
    }
    width = of.back() * layer.ratio->numerator / layer.ratio->denominator;
    if (target_width && width != *target_width) {
      warnings_.push_back(
          format("layer '{}': its ratio gives a width of {}, its target has {}; {} is used",
                 layer.name, width, *target_width, *target_width));
      width = *target_width;
    }
  } else if (target_width) {
    width = *target_width;
  } else {
    const Shape& input = specs_.at(layer.inputs[0]).shape;
    width = input.empty() ? 1 : input.back();
  }
  if (width < 1) {
    fail(ErrorCode::kInvalidArgument, "layer '{}' comes out with a width of {}", layer.name, width);
  }
  attributes["out"] = width;
}

void HarmonicGraph::check_consumers_and_taps() const {
  for (const TrainingTap& tap : taps_) {
    if (!(tap.weight > 0 && tap.weight < 1e30)) {
      fail(ErrorCode::kInvalidArgument, "the weight of loss '{}' on '{}' must be above 0", tap.loss,
           tap.prediction);
    }
  }
  if (!resolved()) return;
  for (const ConsumerNode& consumer : consumers_) {
    const TensorSpec& input = specs_.at(consumer.input);
    if (consumer.shape && *consumer.shape != input.shape) {
      fail(ErrorCode::kInvalidArgument, "consumer '{}' wants {}, but '{}' has {}", consumer.name,
           shape_text(*consumer.shape), consumer.input, shape_text(input.shape));
    }
  }
  for (const TrainingTap& tap : taps_) {
    const TensorSpec& prediction = specs_.at(tap.prediction);
    const TensorSpec& target = specs_.at(tap.target);
    const std::string problem = find_loss_type(tap.loss)->check(prediction, target);
    if (!is_floating(prediction.dtype) || !problem.empty()) {
      fail(ErrorCode::kInvalidArgument, "{} of '{}' ({}) against '{}' ({}): {}", tap.loss,
           tap.prediction, spec_text(prediction), tap.target, spec_text(target),
           problem.empty() ? "the prediction must be floating-point" : problem);
    }
  }
}

HarmonicGraph HarmonicGraph::resolved_with(const std::map<std::string, TensorSpec>& specs) const {
  GraphBuilder builder(name_);
  builder.graph_ = *this;
  for (const auto& [name, spec] : specs) {
    const auto index = producer_index(name);
    if (!index) fail(ErrorCode::kNotFound, "graph '{}' has no producer '{}'", name_, name);
    ProducerNode& producer = builder.graph_.producers_[*index];
    if (!producer.extents.empty()) {
      AxisBinding(axes_).bind(format("producer '{}'", name), spec.shape, *producer.shape,
                              producer.extents);
      if (spec.dtype != producer.dtype) {
        fail(ErrorCode::kInvalidArgument, "producer '{}' is declared as {}, its data is {}", name,
             dtype_name(producer.dtype), dtype_name(spec.dtype));
      }
      continue;
    }
    // A dtype that nobody chose (float32) gives way to the data's, together with an unknown shape.
    const bool free_dtype = !producer.shape && producer.dtype == DType::kFloat32;
    const TensorSpec declared{producer.shape.value_or(spec.shape),
                              free_dtype ? spec.dtype : producer.dtype};
    if (declared != spec) {
      fail(ErrorCode::kInvalidArgument, "producer '{}' is declared as {}, its data has {}", name,
           spec_text(declared), spec_text(spec));
    }
    producer.dtype = spec.dtype;
    producer.shape = spec.shape;
  }
  return builder.build();
}

const TensorSpec& HarmonicGraph::spec(std::string_view tensor) const {
  const auto found = specs_.find(tensor);
  if (found != specs_.end()) return found->second;
  if (!resolved()) {
    fail(ErrorCode::kFailedPrecondition,
         "the shape of producer '{}' is not known yet: declare it or bind data",
         unresolved_.front());
  }
  fail(ErrorCode::kNotFound, "graph '{}' has no producer or layer '{}'", name_, tensor);
}

std::optional<std::size_t> HarmonicGraph::layer_index(std::string_view name) const {
  const auto found = layer_indices_.find(name);
  if (found == layer_indices_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::size_t> HarmonicGraph::producer_index(std::string_view name) const {
  for (std::size_t i = 0; i < producers_.size(); ++i) {
    if (producers_[i].name == name) return i;
  }
  return std::nullopt;
}

std::int64_t HarmonicGraph::parameter_count() const {
  std::int64_t count = 0;
  for (const LayerShape& shape : shapes_) {
    for (const ParameterSpec& parameter : shape.parameters) {
      const bool elsewhere = !parameter.tied_to.empty() && !parameter.away;
      if (parameter.trainable && !elsewhere) count += element_count(parameter.shape);
    }
  }
  return count;
}

}  // namespace harmonics::inline in_graph
