#include "onnx_exporter.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "model_record.h"
#include "proto_writer.h"

namespace harmonics::inline in_models {
namespace {

const OnnxLayerWriters& layer_writers() {
  static const OnnxLayerWriters kWriters = [] {
    OnnxLayerWriters all;
    for (auto* theme : {onnx_window_writers, onnx_norm_writers, onnx_element_writers,
                        onnx_shape_writers, onnx_token_writers, onnx_recurrent_writers}) {
      all.merge(theme());
    }
    return all;
  }();
  return kWriters;
}

// An attribute as its message; whole numbers, lists of them, real numbers and texts.
std::string attribute_message(const std::string& name, const Attribute& value) {
  ProtoWriter out;
  out.bytes(1, name);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    out.number(3, *whole).number(20, 2);
  } else if (const auto* real = std::get_if<double>(&value)) {
    out.real(2, static_cast<float>(*real)).number(20, 1);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    out.bytes(4, *text).number(20, 3);
  } else {
    for (const std::int64_t each : std::get<Shape>(value)) out.number(8, each);
    out.number(20, 7);
  }
  return out.text();
}

std::string extent_name(const NamedExtent& extent) {
  std::string name = extent.factor == 1 ? extent.axis : format("{}*{}", extent.factor, extent.axis);
  if (extent.offset > 0) name += format("+{}", extent.offset);
  if (extent.offset < 0) name += format("{}", extent.offset);
  return name;
}

}  // namespace

void WrittenLayer::refuse(const std::string& what) const {
  fail(ErrorCode::kUnimplemented, "layer '{}' ({}) has no spelling in ONNX: {}", node.name,
       node.type, what);
}

OnnxExporter::OnnxExporter(const HarmonicGraph& graph, const WeightSource& weights)
    : graph_(graph), weights_(weights) {
  if (!graph.resolved()) {
    fail(ErrorCode::kFailedPrecondition,
         "the shape of {} is not known: state it in the file before the graph is exported",
         listed(graph.unresolved()));
  }
  if (graph.consumers().empty())
    fail(ErrorCode::kFailedPrecondition, "graph '{}' has no consumer: nothing would come out",
         graph.name());
  find_needed();
  choose_names();
  for (std::size_t i = 0; i < graph.layers().size(); ++i)
    if (needed_.contains(graph.layers()[i].name)) write_layer(i);
  for (const ConsumerNode& consumer : graph.consumers()) {
    prefix_ = consumer.name;
    dtype_ = graph.spec(consumer.input).dtype;
    const std::string value =
        activated(value_names_.at(consumer.input), consumer.activation, consumer.name);
    if (value != consumer.name) name_value(value, consumer.name);
  }
}

void OnnxExporter::find_needed() {
  for (const ConsumerNode& consumer : graph_.consumers()) needed_.insert(consumer.input);
  for (auto layer = graph_.layers().rbegin(); layer != graph_.layers().rend(); ++layer)
    if (needed_.contains(layer->name)) needed_.insert(layer->inputs.begin(), layer->inputs.end());
}

// Consumers have names of their own: where one is that of another tensor, the tensor gives way.
void OnnxExporter::choose_names() {
  std::map<std::string, const ConsumerNode*, std::less<>> consumers;
  for (const ConsumerNode& one : graph_.consumers()) {
    consumers[one.name] = &one;
    taken_.insert(one.name);
  }
  const auto choose = [&](const std::string& tensor, bool may_leave) {
    const auto same = consumers.find(tensor);
    const bool leaves = same != consumers.end() && may_leave && same->second->input == tensor &&
                        same->second->activation.empty();
    value_names_[tensor] = leaves ? tensor : unique(tensor);
  };
  // What enters keeps its name before all others.
  for (const ProducerNode& one : graph_.producers()) {
    if (!needed_.contains(one.name)) continue;
    if (consumers.contains(one.name)) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' is the name of a producer and of a consumer: an ONNX file has one value of a name",
           one.name);
    }
    choose(one.name, false);
  }
  for (const LayerNode& one : graph_.layers())
    if (needed_.contains(one.name)) choose(one.name, true);
}

std::string OnnxExporter::unique(const std::string& wish) {
  std::string name = wish;
  for (int i = 2; !taken_.insert(name).second; ++i) name = format("{}_{}", wish, i);
  return name;
}

void OnnxExporter::write_layer(std::size_t index) {
  const LayerNode& node = graph_.layers()[index];
  std::vector<TensorSpec> inputs;
  std::vector<std::string> values;
  for (const std::string& input : node.inputs) {
    inputs.push_back(graph_.spec(input));
    values.push_back(value_names_.at(input));
  }
  const WrittenLayer layer{node,
                           {node.name, node.type, inputs, graph_.full_attributes(index)},
                           std::move(values),
                           graph_.layer_shape(index)};
  const auto writer = layer_writers().find(node.type);
  if (writer == layer_writers().end()) layer.refuse("there is no operator for it");
  prefix_ = node.name;
  dtype_ = layer.shape.output.dtype;
  const std::string value = writer->second(*this, layer);
  std::string out = value;
  if (node.activation == "prelu") {
    out = this->node("PRelu", {value, parameter(layer, "prelu.weight", layer.shape.output.dtype)});
  } else {
    out = activated(value, node.activation, node.name);
  }
  name_value(out, value_names_.at(node.name));
}

void OnnxExporter::name_value(const std::string& value, const std::string& name) {
  const bool is_last = !nodes_.empty() && nodes_.back().outputs.size() == 1 &&
                       nodes_.back().outputs[0] == value && value.starts_with(prefix_ + "/");
  if (is_last) {
    nodes_.back().outputs[0] = name;
    return;
  }
  nodes_.push_back({"Identity", {value}, {name}, {}});
}

std::vector<std::string> OnnxExporter::nodes(std::string_view op, std::vector<std::string> inputs,
                                             Attributes attributes, std::size_t outputs) {
  Node node{std::string(op), std::move(inputs), {}, std::move(attributes)};
  for (std::size_t i = 0; i < outputs; ++i)
    node.outputs.push_back(unique(format("{}/{}", prefix_, op)));
  nodes_.push_back(node);
  return node.outputs;
}

std::string OnnxExporter::node(std::string_view op, std::vector<std::string> inputs,
                               Attributes attributes) {
  return nodes(op, std::move(inputs), std::move(attributes), 1)[0];
}

std::string OnnxExporter::constant(const std::string& name, const Constant& value) {
  const std::string own = unique(name);
  initializers_.push_back({own, value.spec(), [value] { return value.tensor(); }, {}});
  return own;
}

std::string OnnxExporter::integers(const std::vector<std::int64_t>& values) {
  std::string& name = kept_[shape_text(values)];
  if (name.empty())
    name = constant(format("numbers_{}", kept_.size()),
                    Constant::of_integers({static_cast<std::int64_t>(values.size())}, values));
  return name;
}

std::string OnnxExporter::number(double value, DType dtype) {
  std::string& name = kept_[format("{} {}", dtype_name(dtype), value)];
  if (name.empty())
    name = constant(format("number_{}", kept_.size()), Constant::of_reals({}, {value}, dtype));
  return name;
}

std::string OnnxExporter::stored_name(const std::string& full) const {
  return name_in_weights(weights_, full);
}

namespace {

const ParameterSpec& parameter_spec(const WrittenLayer& layer, std::string_view name) {
  for (const ParameterSpec& one : layer.shape.parameters)
    if (one.name == name) return one;
  fail(ErrorCode::kInternal, "layer '{}' has no parameter '{}'", layer.node.name, name);
}

std::string full_name(const WrittenLayer& layer, const ParameterSpec& spec) {
  return spec.tied_to.empty() ? format("{}.{}", layer.node.name, spec.name) : spec.tied_to;
}

// The same numbers as another dtype, piece by piece.
Tensor as_dtype(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  constexpr std::int64_t kPiece = std::int64_t{1} << 16;
  Tensor out = Tensor::empty(tensor.shape(), dtype);
  const std::size_t from = dtype_size(tensor.dtype()), to = dtype_size(dtype);
  for (std::int64_t at = 0; at < tensor.size(); at += kPiece) {
    const std::int64_t count = std::min(kPiece, tensor.size() - at);
    const auto place = static_cast<std::size_t>(at), size = static_cast<std::size_t>(count);
    const Constant piece({{count}, tensor.dtype()},
                         tensor.bytes().subspan(place * from, size * from));
    const Tensor turned = Constant::of_reals({count}, piece.reals(), dtype).tensor();
    std::ranges::copy(turned.bytes(),
                      out.mutable_bytes().begin() + static_cast<std::ptrdiff_t>(place * to));
  }
  return out;
}

void check_stored(const WeightEntry& entry, const Shape& shape, const std::string& name) {
  if (entry.shape == shape) return;
  fail(ErrorCode::kInvalidArgument, "'{}' is {} in the graph and {} in the weights", name,
       shape_text(shape), shape_text(entry.shape));
}

}  // namespace

std::string OnnxExporter::parameter(const WrittenLayer& layer, std::string_view name, DType dtype) {
  const ParameterSpec& spec = parameter_spec(layer, name);
  const std::string full = full_name(layer, spec);
  std::string& own = kept_[format("parameter {} {}", dtype_name(dtype), full)];
  if (!own.empty()) return own;
  const std::string stored = stored_name(full);
  check_stored(weights_.at(stored), spec.shape, full);
  own = unique(full);
  const WeightSource& weights = weights_;
  initializers_.push_back(
      {own,
       {spec.shape, dtype},
       [&weights, stored, dtype] { return as_dtype(weights.read(stored), dtype); },
       [&weights, stored] { weights.forget(stored); }});
  return own;
}

Tensor OnnxExporter::parameter_values(const WrittenLayer& layer, std::string_view name) const {
  const ParameterSpec& spec = parameter_spec(layer, name);
  const std::string full = full_name(layer, spec), stored = stored_name(full);
  check_stored(weights_.at(stored), spec.shape, full);
  return as_dtype(weights_.read(stored), DType::kFloat32);
}

std::string OnnxExporter::extent(const std::string& value, std::int64_t axis) {
  return node("Shape", {value}, {{"start", axis}, {"end", axis + 1}});
}

std::string OnnxExporter::aligned(const std::string& value, std::size_t rank, std::size_t wanted) {
  if (rank >= wanted) return value;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 1; i <= wanted - rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  return node("Unsqueeze", {value, integers(axes)});
}

std::string OnnxExporter::node_text(const Node& node, std::size_t index) const {
  ProtoWriter out;
  for (const std::string& one : node.inputs) out.bytes(1, one);
  for (const std::string& one : node.outputs) out.bytes(2, one);
  // The name of what it makes; a file needs no other, but tools ask for one.
  out.bytes(3, node.outputs.empty() ? format("node_{}", index) : node.outputs[0]);
  out.bytes(4, node.op);
  for (const auto& [name, value] : node.attributes) out.bytes(5, attribute_message(name, value));
  return out.text();
}

std::string OnnxExporter::value_text(const std::string& name, const std::string& tensor) const {
  const TensorSpec& spec = graph_.spec(tensor);
  std::vector<std::string> axes = {ProtoWriter().bytes(2, "N").text()};
  for (const std::int64_t extent : spec.shape)
    axes.push_back(ProtoWriter().number(1, extent).text());
  for (const NamedExtent& extent : graph_.named_extents(tensor))
    axes.at(extent.position + 1) = ProtoWriter().bytes(2, extent_name(extent)).text();
  ProtoWriter shape;
  for (const std::string& axis : axes) shape.bytes(1, axis);
  const std::string type =
      ProtoWriter().number(1, onnx_data_type(spec.dtype)).bytes(2, shape.text()).text();
  return ProtoWriter().bytes(1, name).bytes(2, ProtoWriter().bytes(1, type).text()).text();
}

std::string OnnxExporter::graph_text() {
  ProtoWriter out;
  for (std::size_t i = 0; i < nodes_.size(); ++i) out.bytes(1, node_text(nodes_[i], i));
  out.bytes(2, graph_.name());
  for (const ProducerNode& one : graph_.producers())
    if (needed_.contains(one.name)) out.bytes(11, value_text(one.name, one.name));
  for (const ConsumerNode& one : graph_.consumers()) out.bytes(12, value_text(one.name, one.input));
  return out.text();
}

}  // namespace harmonics::inline in_models
