#include "onnx_importer.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "fold.h"

namespace harmonics::inline in_models {
namespace {

// Names of all values that a node reads, those of its inner graphs too.
void add_reads(const OnnxNode& node, std::vector<std::string>& to) {
  to.insert(to.end(), node.inputs.begin(), node.inputs.end());
  for (const auto& [name, attribute] : node.attributes) {
    if (!attribute.graph) continue;
    for (const OnnxNode& inner : attribute.graph->nodes) add_reads(inner, to);
    for (const OnnxValueInfo& output : attribute.graph->outputs) to.push_back(output.name);
  }
}

// For each node, whether an output of the graph needs it.
std::vector<bool> needed_nodes(const OnnxGraph& graph) {
  std::set<std::string> wanted;
  for (const OnnxValueInfo& output : graph.outputs) wanted.insert(output.name);
  std::vector<bool> needed(graph.nodes.size(), false);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const OnnxNode& node = graph.nodes[i];
    needed[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](const std::string& name) { return wanted.contains(name); });
    if (!needed[i]) continue;
    std::vector<std::string> reads;
    add_reads(node, reads);
    wanted.insert(reads.begin(), reads.end());
  }
  return needed;
}

}  // namespace

Shape Living::sample() const {
  Shape out = shape;
  if (has_batch()) out.erase(out.begin() + static_cast<std::ptrdiff_t>(batch_axis));
  return out;
}

OnnxImporter::OnnxImporter(const OnnxModel& model, std::string file, const OnnxChoices& choices,
                           OnnxFileBytes other_files)
    : model_(model),
      file_(std::move(file)),
      choices_(choices),
      other_files_(std::move(other_files)) {}

void OnnxImporter::refuse(const OnnxNode& node, const std::string& what) const {
  fail(ErrorCode::kUnimplemented, "{}: {} is not imported: {}", file_, node.title(), what);
}

bool OnnxImporter::has_input(const OnnxNode& node, std::size_t index) const {
  return index < node.inputs.size() && !node.inputs[index].empty();
}

bool OnnxImporter::wants(const OnnxNode& node, std::size_t output) const {
  return output < node.outputs.size() && !node.outputs[output].empty() &&
         readers_.contains(node.outputs[output]);
}

const OnnxValue& OnnxImporter::input(const OnnxNode& node, std::size_t index) const {
  if (!has_input(node, index)) {
    fail(ErrorCode::kInvalidArgument, "{}: {} lacks its input {}", file_, node.title(), index + 1);
  }
  const auto found = values_.find(node.inputs[index]);
  if (found == values_.end()) {
    fail(ErrorCode::kInvalidArgument, "{}: {} reads '{}', which nothing before it makes", file_,
         node.title(), node.inputs[index]);
  }
  return found->second;
}

const Living& OnnxImporter::living(const OnnxNode& node, std::size_t index) const {
  const auto* value = std::get_if<Living>(&input(node, index));
  if (value == nullptr) refuse(node, format("its input {} is a constant", index + 1));
  return *value;
}

const Constant* OnnxImporter::constant(const OnnxNode& node, std::size_t index) const {
  return std::get_if<Constant>(&input(node, index));
}

const Constant& OnnxImporter::known(const OnnxNode& node, std::size_t index) const {
  const Constant* value = constant(node, index);
  if (value == nullptr) {
    refuse(node, format("its input {} ('{}') is computed from the data, not known at import; an "
                        "input of the model can be given: --value {}=…",
                        index + 1, node.inputs[index], node.inputs[index]));
  }
  return *value;
}

std::vector<std::int64_t> OnnxImporter::list(const OnnxNode& node, std::string_view attribute,
                                             std::size_t index) const {
  return has_input(node, index) ? known(node, index).integers() : node.integers(attribute);
}

std::int64_t OnnxImporter::sample_axis(const OnnxNode& node, const Living& value,
                                       std::int64_t axis) const {
  const std::size_t place = front_axis(axis, value.shape.size());
  if (place == value.batch_axis) refuse(node, "it works across the samples of a batch");
  return static_cast<std::int64_t>(place > value.batch_axis ? place - 1 : place);
}

void OnnxImporter::check_batches(const OnnxNode& node, const Living& a, const Living& b) const {
  if (is_whole() || a.shape.size() - a.batch_axis == b.shape.size() - b.batch_axis) return;
  refuse(node, "the batch is not the same axis of both inputs");
}

std::string OnnxImporter::unique_name(std::string_view wish) {
  const std::string name = onnx_user_name(wish);
  const int count = names_[name]++;
  if (count == 0) return name;
  return unique_name(format("{}_{}", name, count + 1));
}

Living OnnxImporter::add_layer(const OnnxNode& node, std::string_view type, Attributes attributes,
                               const std::vector<Living>& inputs, Shape shape) {
  LayerNode layer;
  layer.name = unique_name(!node.name.empty() ? node.name : node.outputs.at(0));
  layer.type = type;
  layer.attributes = std::move(attributes);
  for (const Living& one : inputs) layer.inputs.push_back(one.tensor);
  Living out = inputs.at(0);
  out.tensor = layer.name;
  out.shape = std::move(shape);
  if (std::ranges::find(out.shape, 0) != out.shape.end())
    refuse(node, format("it makes {}, a tensor without elements", shape_text(out.shape)));
  layer_places_[layer.name] = layers_.size();
  shapes_.push_back(out.shape);
  layers_.push_back(std::move(layer));
  return out;
}

Living OnnxImporter::constant_layer(const OnnxNode& node, const Constant& value,
                                    const Living& like) {
  Shape shape = value.shape(), sample = shape;
  Constant one = value;
  if (like.has_batch()) {
    // Seen with as many axes as `like`, so that the batch has a place.
    while (shape.size() < like.shape.size()) shape.insert(shape.begin(), 1);
    const std::size_t batch = like.batch_axis;
    if (shape.size() != like.shape.size() || (shape[batch] != 1 && shape[batch] != kBatchExtent))
      refuse(node, format("a constant of {} differs from sample to sample", shape_text(shape)));
    sample = shape;
    sample.erase(sample.begin() + static_cast<std::ptrdiff_t>(batch));
    const bool is_wide = shape[batch] == kBatchExtent;
    one = is_wide ? value.moved(sample, [](std::int64_t i) { return i; }) : value.reshaped(sample);
    shape[batch] = kBatchExtent;
  }
  Living out = add_layer(node, "constant",
                         {{"shape", sample}, {"dtype", std::string(dtype_name(value.dtype()))}},
                         {like}, shape);
  out.dtype = value.dtype();
  set_weight(out, "value", one);
  return out;
}

Living OnnxImporter::living_or_layer(const OnnxNode& node, std::size_t index, const Living& like) {
  const Constant* value = constant(node, index);
  return value == nullptr ? living(node, index) : constant_layer(node, *value, like);
}

Living OnnxImporter::reshaped(const OnnxNode& node, const Living& x, Shape shape,
                              std::size_t batch_axis) {
  Living out = x;
  out.shape = shape;
  out.batch_axis = batch_axis;
  if (out.sample() == x.sample()) return out;
  const Shape sample = out.sample();
  out = add_layer(node, "reshape", {{"shape", sample}}, {x}, std::move(shape));
  out.dtype = x.dtype;
  out.batch_axis = batch_axis;
  return out;
}

Living OnnxImporter::cast(const OnnxNode& node, const Living& x, DType to) {
  if (to == x.dtype) return x;
  Living out = add_layer(node, "cast", {{"to", std::string(dtype_name(to))}}, {x}, x.shape);
  out.dtype = to;
  return out;
}

void OnnxImporter::set_weight(const Living& layer, std::string_view parameter,
                              const Constant& value) {
  // A layer keeps its numbers as float32 (float64 beside float64): whole ones must survive that.
  if (const std::optional<std::int64_t> number = value.beyond_float32()) {
    fail(ErrorCode::kUnimplemented,
         "{}: layer '{}' would keep the number {}, which float32 cannot hold", file_, layer.tensor,
         *number);
  }
  weights_[format("{}.{}", layer.tensor, parameter)] = value;
}

void OnnxImporter::set_activation(const Living& layer, const std::string& activation) {
  layers_[layer_places_.at(layer.tensor)].activation = activation;
}

Living OnnxImporter::activated(const OnnxNode& node, const Living& value,
                               const std::string& activation) {
  const auto place = layer_places_.find(value.tensor);
  const auto made = layer_values_.find(value.tensor);
  const bool alone = made != layer_values_.end() && made->second == node.inputs[0] &&
                     readers_[node.inputs[0]] == 1;
  if (place != layer_places_.end() && alone && layers_[place->second].activation.empty()) {
    layers_[place->second].activation = activation;
    layer_values_[value.tensor] = node.outputs[0];
    return value;
  }
  const Living out = add_layer(node, "identity", {}, {value}, value.shape);
  layers_.back().activation = activation;
  return out;
}

void OnnxImporter::set_output(const OnnxNode& node, std::size_t index, OnnxValue value) {
  if (index >= node.outputs.size() || node.outputs[index].empty()) return;
  if (const auto* made = std::get_if<Living>(&value)) {
    layer_values_.try_emplace(made->tensor, node.outputs[index]);
  }
  values_[node.outputs[index]] = std::move(value);
}

Constant OnnxImporter::stored(const OnnxTensor& tensor) const {
  if (!tensor.integers.empty())
    return Constant::of_integers(tensor.spec.shape, tensor.integers, tensor.spec.dtype);
  if (tensor.location.empty()) return Constant(tensor.spec, tensor.raw);
  if (!other_files_) {
    fail(ErrorCode::kFailedPrecondition, "{}: tensor '{}' lies in '{}', which is not there", file_,
         tensor.name, tensor.location);
  }
  const ByteSpan bytes = other_files_(tensor.location);
  const auto size = static_cast<std::uint64_t>(byte_count(tensor.spec));
  if (tensor.length.value_or(size) != size || tensor.offset > bytes.size() ||
      size > bytes.size() - tensor.offset) {
    fail(ErrorCode::kDataLoss,
         "{}: tensor '{}' takes {} bytes from byte {} of '{}' on, which has {} bytes", file_,
         tensor.name, size, tensor.offset, tensor.location, bytes.size());
  }
  return Constant(tensor.spec, bytes.subspan(tensor.offset, size));
}

void OnnxImporter::add_initializers(const OnnxGraph& graph) {
  for (const OnnxTensor& tensor : graph.initializers) {
    Constant value = stored(tensor);
    value.set_origin({tensor.name});
    values_[tensor.name] = std::move(value);
  }
}

void OnnxImporter::check_operators(const OnnxGraph& graph) const {
  std::map<std::string, std::pair<int, std::string>> missing;
  for (const OnnxNode& node : graph.nodes) {
    const bool ours = node.domain.empty() || node.domain == "ai.onnx";
    if (node.op == "If" || (ours && (find_onnx_handler(node.op) != nullptr || is_folded(node.op))))
      continue;
    auto& [count, first] = missing[ours ? node.op : node.domain + "." + node.op];
    if (count++ == 0) first = node.title();
  }
  if (missing.empty()) return;
  fail(ErrorCode::kUnimplemented, "{}: not covered: {}", file_,
       listed(missing, [](const auto& one) {
         return format("{} ({} nodes, the first {})", one.first, one.second.first,
                       one.second.second);
       }));
}

void OnnxImporter::count_readers(const OnnxGraph& graph) {
  for (const OnnxNode& node : graph.nodes) {
    std::vector<std::string> reads;
    add_reads(node, reads);
    for (const std::string& name : reads) ++readers_[name];
  }
  for (const OnnxValueInfo& output : graph.outputs) ++readers_[output.name];
}

void OnnxImporter::inline_branch(const OnnxNode& node) {
  const bool taken = known(node, 0).integer() != 0;
  const OnnxAttribute* branch = node.find(taken ? "then_branch" : "else_branch");
  if (branch == nullptr || !branch->graph) refuse(node, "it has no branches");
  add_initializers(*branch->graph);
  for (const OnnxNode& inner : branch->graph->nodes) import_node(inner);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const auto found = i < branch->graph->outputs.size()
                           ? values_.find(branch->graph->outputs[i].name)
                           : values_.end();
    if (found == values_.end()) refuse(node, "its branch does not make its outputs");
    values_[node.outputs[i]] = OnnxValue(found->second);
  }
}

namespace {

// Where operators that work sample by sample have their batch; nothing for others.
std::optional<std::size_t> own_batch_axis(const OnnxNode& node) {
  static const std::set<std::string_view> kImages = {"AveragePool",
                                                     "GroupNormalization",
                                                     "BatchNormalization",
                                                     "Conv",
                                                     "ConvTranspose",
                                                     "GlobalAveragePool",
                                                     "GlobalMaxPool",
                                                     "InstanceNormalization",
                                                     "LRN",
                                                     "MaxPool",
                                                     "Resize"};
  if (kImages.contains(node.op)) return 0;
  if (node.op != "LSTM" && node.op != "GRU") return std::nullopt;
  return node.integer("layout", 0) != 0 ? 0 : 1;
}

}  // namespace

// Where whole tensors are samples, a batch of 1 is one.
bool OnnxImporter::is_one_sample(const OnnxNode& node) const {
  const std::optional<std::size_t> axis = own_batch_axis(node);
  if (!is_whole() || !axis || !has_input(node, 0)) return false;
  const auto* x = std::get_if<Living>(&input(node, 0));
  return x != nullptr && *axis < x->shape.size() && x->shape[*axis] == 1;
}

void OnnxImporter::import_one_sample(const OnnxNode& node, OnnxHandler handler) {
  const std::size_t axis = own_batch_axis(node).value();
  std::map<std::string, OnnxValue> kept;
  // The data, and the states of a recurrent layer.
  for (const std::size_t index : {0U, 5U, 6U}) {
    if (!has_input(node, index) || kept.contains(node.inputs[index])) continue;
    const OnnxValue value = input(node, index);
    const auto* whole = std::get_if<Living>(&value);
    if (whole == nullptr) continue;
    if (axis >= whole->shape.size() || whole->shape[axis] != 1)
      refuse(node, format("its input {} is no batch of 1", index + 1));
    Shape shape = whole->shape;
    shape[axis] = kBatchExtent;
    kept.emplace(node.inputs[index], value);
    values_[node.inputs[index]] = reshaped(node, *whole, shape, axis);
  }
  handler(*this, node);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const auto made = values_.find(node.outputs[i]);
    if (made == values_.end() || !std::holds_alternative<Living>(made->second)) continue;
    const Living value = std::get<Living>(made->second);
    if (!value.has_batch()) continue;
    Shape shape = value.shape;
    shape[value.batch_axis] = 1;
    set_output(node, i, reshaped(node, value, shape, kNoBatch));
  }
  for (auto& [name, value] : kept) values_[name] = std::move(value);
}

void OnnxImporter::import_node(const OnnxNode& node) {
  if (node.op == "If") return inline_branch(node);
  if (const OnnxAttribute* value = node.find("value");
      node.op == "Constant" && value != nullptr && value->tensor) {
    return set_output(node, 0, stored(*value->tensor));  // perhaps of another file
  }
  std::vector<const Constant*> constants;
  bool all_known = true;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    constants.push_back(has_input(node, i) ? constant(node, i) : nullptr);
    all_known = all_known && (!has_input(node, i) || constants.back() != nullptr);
  }
  if (all_known) {
    if (auto outputs = fold(node, constants)) {
      for (std::size_t i = 0; i < outputs->size(); ++i) set_output(node, i, (*outputs)[i]);
      return;
    }
  }
  const OnnxHandler handler = find_onnx_handler(node.op);
  if (handler == nullptr) {
    // Only constants are computed by it.
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (has_input(node, i)) (void)known(node, i);
    refuse(node, "it works on data; only constants are computed by it");
  }
  if (node.outputs.empty()) refuse(node, "it has no output");
  try {
    is_one_sample(node) ? import_one_sample(node, handler) : handler(*this, node);
  } catch (const std::out_of_range&) {
    refuse(node, "its inputs and attributes do not fit together");
  }
}

OnnxImport OnnxImporter::run() {
  check_operators(model_.graph);
  add_initializers(model_.graph);
  add_inputs();
  count_readers(model_.graph);
  const std::vector<bool> needed = needed_nodes(model_.graph);
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i]) import_node(model_.graph.nodes[i]);
  GraphBuilder builder(onnx_user_name(model_.graph.name.empty() ? "model" : model_.graph.name));
  const auto leaving = outputs();
  for (ProducerNode& producer : producers_) builder.add(std::move(producer));
  for (LayerNode& layer : layers_) builder.add(std::move(layer));
  for (const auto& [name, value] : leaving) builder.consumer(name, value.tensor);
  OnnxImport result{builder.build(), std::move(weights_), {}};
  for (const auto& [name, value] : leaving) result.batch_axes[name] = value.batch_axis;
  check_shapes(result.graph);
  return result;
}

// Both ways of counting must come to the same: a batch is one axis of every tensor.
void OnnxImporter::check_shapes(const HarmonicGraph& graph) const {
  for (const auto& [name, place] : layer_places_) {
    const Shape& made = graph.spec(name).shape;
    const Shape& meant = shapes_[place];
    const bool has_batch = std::ranges::find(meant, kBatchExtent) != meant.end();
    if (element_count(made) != element_count(meant) / (has_batch ? kBatchExtent : 1)) {
      fail(ErrorCode::kInternal, "{}: layer '{}' makes {} of a sample, the file means {}", file_,
           name, shape_text(made), shape_text(shapes_[place]));
    }
  }
}

}  // namespace harmonics::inline in_models
