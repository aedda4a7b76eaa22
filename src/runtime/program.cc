#include "program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

namespace harmonics {
namespace {

// Slots, and which layers lead to a loss here or, through a boundary, in another part.
class Compiler {
 public:
  explicit Compiler(const HarmonicGraph& graph) : graph_(graph) {
    std::uint32_t slot = 0;
    for (const ProducerNode& node : graph.producers()) slots_[node.name] = slot++;
    for (const LayerNode& node : graph.layers()) slots_[node.name] = slot++;
    find_leading_tensors();
  }

  std::uint32_t slot(const std::string& name) const { return slots_.at(name); }
  bool leads_to_loss(const std::string& name) const { return leading_.contains(name); }

  // Only layer outputs and boundaries that carry gradients back bear gradients.
  bool bears_gradient(const std::string& name) const {
    if (!is_floating(graph_.spec(name).dtype)) return false;
    const auto producer = graph_.producer_index(name);
    return !producer || graph_.producers()[*producer].gradient_slots > 0;
  }

  // Where a tap stands among the layers: right after the later of its operands.
  std::size_t tap_position(const TrainingTap& tap) const {
    std::size_t position = 0;
    for (const std::string& operand : {tap.prediction, tap.target}) {
      if (const auto index = graph_.layer_index(operand)) position = std::max(position, *index + 1);
    }
    return position;
  }

 private:
  void find_leading_tensors() {
    for (const TrainingTap& tap : graph_.taps()) leading_.insert(tap.prediction);
    for (const ConsumerNode& node : graph_.consumers()) {
      if (node.gradient_slots > 0) leading_.insert(node.input);
    }
    for (auto layer = graph_.layers().rbegin(); layer != graph_.layers().rend(); ++layer) {
      if (!leading_.contains(layer->name)) continue;
      leading_.insert(layer->inputs.begin(), layer->inputs.end());
    }
  }

  const HarmonicGraph& graph_;
  std::map<std::string, std::uint32_t, std::less<>> slots_;
  std::set<std::string, std::less<>> leading_;
};

LayerStep make_layer(const HarmonicGraph& graph, std::size_t index, std::uint64_t seed) {
  const LayerNode& node = graph.layers()[index];
  std::vector<TensorSpec> inputs;
  for (const std::string& input : node.inputs) inputs.push_back(graph.spec(input));
  LayerStep step;
  step.name = node.name;
  step.forward =
      make_layer_forward({node.name, node.type, inputs, graph.full_attributes(index)});
  if (!node.activation.empty()) {
    step.activation = torch_activation(node.activation);
    step.activation_parameters = find_activation_type(node.activation)->parameters.size();
  }
  step.own_parameters = graph.layer_shape(index).parameters.size() - step.activation_parameters;
  step.output_shape = graph.layer_shape(index).output.shape;
  step.key = random_key(seed, node.name);
  return step;
}

void check_slots(const HarmonicGraph& graph, const std::vector<std::uint32_t>& use_counts) {
  for (std::size_t i = 0; i < graph.producers().size(); ++i) {
    const ProducerNode& node = graph.producers()[i];
    if (node.gradient_slots != use_counts[i]) {
      fail(ErrorCode::kInvalidArgument,
           "boundary '{}' declares {} gradients, but {} of its uses lead to a loss: cut the graph with "
           "partition_graph or auto_partition",
           node.name, node.gradient_slots, use_counts[i]);
    }
  }
}

}  // namespace

Program::Program(const HarmonicGraph& graph, std::uint64_t seed) {
  const Compiler compiler(graph);
  const std::size_t producer_count = graph.producers().size();
  slot_count = producer_count + graph.layers().size();
  use_counts.assign(slot_count, 0);
  const auto reading = [&](const std::string& tensor, bool leads) {
    Use use{compiler.slot(tensor), kNoUse};
    if (leads && compiler.bears_gradient(tensor)) use.use = use_counts[use.slot]++;
    return use;
  };

  // Uses are numbered in graph order; a tap stands right after the later of its operands.
  std::multimap<std::size_t, const TrainingTap*> taps_at;
  for (const TrainingTap& tap : graph.taps()) taps_at.emplace(compiler.tap_position(tap), &tap);
  const auto add_taps = [&](std::size_t position) {
    for (auto [at, end] = taps_at.equal_range(position); at != end; ++at) {
      const TrainingTap& tap = *at->second;
      taps.push_back({torch_loss(tap.loss), reading(tap.prediction, true),
                      compiler.slot(tap.target), tap.weight, tap.loss == "cross_entropy",
                      tap.prediction});
    }
  };
  add_taps(0);
  std::size_t parameters = 0;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    LayerStep step = make_layer(graph, i, seed);
    step.output = static_cast<std::uint32_t>(producer_count + i);
    const bool leads = compiler.leads_to_loss(step.name);
    for (const std::string& input : graph.layers()[i].inputs) {
      step.inputs.push_back(reading(input, leads));
    }
    step.first_parameter = parameters;
    parameters += step.own_parameters + step.activation_parameters;
    layers.push_back(std::move(step));
    add_taps(i + 1);
  }

  // Boundaries come last, as they stand: partition.h puts them in the order of later layers.
  for (const ConsumerNode& node : graph.consumers()) {
    ConsumerStep step{node.name, {}, compiler.slot(node.input), kNoUse, node.gradient_slots};
    if (!node.activation.empty()) step.activation = torch_activation(node.activation);
    if (node.gradient_slots > 0 && compiler.bears_gradient(node.input)) {
      step.first_use = use_counts[step.slot];
      use_counts[step.slot] += node.gradient_slots;
    }
    consumers.push_back(std::move(step));
  }
  check_slots(graph, use_counts);

  needed_for_inference.assign(producer_count, false);
  std::vector<bool> kept(slot_count, false);
  for (const ConsumerStep& step : consumers) kept[step.slot] = true;
  for (const TapStep& step : taps) kept[step.prediction.slot] = kept[step.target] = true;
  for (const ConsumerStep& step : consumers) {
    if (step.slot < producer_count) needed_for_inference[step.slot] = true;
  }
  std::vector<bool> seen = kept;
  for (auto step = layers.rbegin(); step != layers.rend(); ++step) {
    for (const Use& input : step->inputs) {
      if (input.slot < producer_count) needed_for_inference[input.slot] = true;
      if (!seen[input.slot]) step->last_reads.push_back(input.slot);
      seen[input.slot] = true;
    }
  }
}

}  // namespace harmonics
