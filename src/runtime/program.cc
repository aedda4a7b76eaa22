#include "program.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/random.h>

#include "kernels/kernels.h"
#include "torch/fused_layers.h"

namespace harmonics::inline in_runtime {
namespace {

ImageLayout layout_of(const LayerNode& node) {
  static const std::set<std::string, std::less<>> kImages = {
      "adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "batch_norm", "conv2d", "max_pool"};
  static const std::set<std::string, std::less<>> kKeep = {"add", "dropout", "mul"};
  return kImages.contains(node.type) ? ImageLayout::kImages
         : kKeep.contains(node.type) ? ImageLayout::kKeep
                                     : ImageLayout::kPlain;
}

/// Turns a graph into a Program, step by step.
class Compiler {
 public:
  Compiler(const HarmonicGraph& graph, std::uint64_t seed, Program& program)
      : graph_(graph), seed_(seed), program_(program) {
    std::uint32_t slot = 0;
    for (const ProducerNode& node : graph.producers()) slots_[node.name] = slot++;
    for (const LayerNode& node : graph.layers()) slots_[node.name] = slot++;
    program.slot_count = slot;
    program.use_counts.assign(slot, 0);
    program.brings_weight.assign(graph.producers().size(), false);
  }

  void compile() {
    find_leading_tensors();
    add_layers_and_taps();
    add_consumers();
    check_gradient_slots();
    find_last_reads();
    find_sample_runs();
  }

 private:
  // Which tensors lead to a loss, here or, through a boundary, in another part.
  void find_leading_tensors() {
    for (const TrainingTap& tap : graph_.taps()) leading_.insert(tap.prediction);
    for (const ConsumerNode& node : graph_.consumers()) {
      if (node.gradient_slots > 0) leading_.insert(node.input);
    }
    for (auto layer = graph_.layers().rbegin(); layer != graph_.layers().rend(); ++layer) {
      if (!leading_.contains(layer->name)) continue;
      // Truths and whole numbers bear no gradient: what they come from does not lead through them.
      for (const std::string& input : layer->inputs) {
        if (is_floating(graph_.spec(input).dtype)) leading_.insert(input);
      }
    }
  }

  // Only layer outputs and boundaries that carry gradients back bear gradients.
  bool bears_gradient(const std::string& name) const {
    if (!is_floating(graph_.spec(name).dtype)) return false;
    const auto producer = graph_.producer_index(name);
    return !producer || graph_.producers()[*producer].gradient_slots > 0;
  }

  Use reading(const std::string& tensor, bool leads) {
    Use use{slots_.at(tensor), kNoUse};
    if (leads && bears_gradient(tensor)) use.use = program_.use_counts[use.slot]++;
    return use;
  }

  // Uses are numbered in graph order; a tap stands right after the later of its operands.
  void add_layers_and_taps() {
    std::multimap<std::size_t, const TrainingTap*> taps_at;
    for (const TrainingTap& tap : graph_.taps()) taps_at.emplace(tap_position(tap), &tap);
    const auto add_taps = [&](std::size_t position) {
      for (auto [at, end] = taps_at.equal_range(position); at != end; ++at) add_tap(*at->second);
    };
    add_taps(0);
    for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
      add_layer(i);
      add_taps(i + 1);
    }
  }

  std::size_t tap_position(const TrainingTap& tap) const {
    std::size_t position = 0;
    for (const std::string& operand : {tap.prediction, tap.target}) {
      if (const auto index = graph_.layer_index(operand)) position = std::max(position, *index + 1);
    }
    return position;
  }

  void add_tap(const TrainingTap& tap) {
    program_.taps.push_back({torch_loss(tap.loss), reading(tap.prediction, true),
                             slots_.at(tap.target), tap.weight, tap.loss == "cross_entropy",
                             tap.prediction, tap.loss});
    const Shape& predicted = graph_.spec(tap.prediction).shape;
    const bool next = tap.loss == "next_token";
    if ((!next && tap.loss != "cross_entropy") || !is_builtin_loss(tap.loss)) return;
    add_id_range(tap.target, predicted.back(), next ? LeftOut::kBelowZero : LeftOut::kMark,
                 format("the loss of '{}'", tap.prediction));
  }

  void add_id_range(const std::string& name, std::int64_t count, LeftOut left_out,
                    std::string reader) {
    const auto producer = graph_.producer_index(name);
    if (!producer || is_floating(graph_.producers()[*producer].dtype)) return;
    program_.id_ranges.push_back({*producer, count, left_out, std::move(reader)});
  }

  void add_layer(std::size_t index) {
    const LayerNode& node = graph_.layers()[index];
    std::vector<TensorSpec> inputs;
    for (const std::string& input : node.inputs) inputs.push_back(graph_.spec(input));
    LayerStep step;
    step.name = node.name;
    step.given_weight = graph_.layer_shape(index).given_weight;
    if (step.given_weight >= 0) {
      inputs.pop_back();
      program_.brings_weight[slots_.at(node.inputs.back())] = true;
    }
    const Attributes attributes = graph_.full_attributes(index);
    const LayerQuery query{node.name, node.type, inputs, attributes};
    step.forward = make_layer_forward(query);
    if (is_builtin_layer(node.type) && is_builtin_activation(node.activation)) {
      step.fused = make_fused_forward(query, node.activation);
    }
    if (!node.activation.empty()) {
      step.activation = torch_activation(node.activation);
      step.activation_in_place = torch_activation_in_place(node.activation);
      step.activation_parameters = find_activation_type(node.activation)->parameters.size();
    }
    step.own_parameters = graph_.layer_shape(index).parameters.size() - step.activation_parameters;
    step.first_parameter = parameters_;
    parameters_ += step.own_parameters + step.activation_parameters;
    step.output = slots_.at(node.name);
    step.output_shape = graph_.layer_shape(index).output.shape;
    step.output_extents = graph_.named_extents(node.name);
    step.frozen = is_frozen(node);
    step.layout = layout_of(node);
    program_.builtin = program_.builtin && is_builtin_layer(node.type);
    step.key = random_key(seed_, node.name);
    for (const std::string& input : node.inputs) {
      step.inputs.push_back(reading(input, leading_.contains(node.name)));
    }
    if (node.type == "embedding" && is_builtin_layer(node.type)) {
      add_id_range(node.inputs[0], query.integer("rows"), LeftOut::kNothing,
                   format("layer '{}'", node.name));
    }
    program_.layers.push_back(std::move(step));
  }

  // Boundaries come last, as they stand: partition.h puts them in the order of later layers.
  void add_consumers() {
    for (const ConsumerNode& node : graph_.consumers()) {
      ConsumerStep step{node.name, {}, slots_.at(node.input), kNoUse, node.gradient_slots};
      if (!node.activation.empty()) step.activation = torch_activation(node.activation);
      const auto layer = graph_.layer_index(node.input);
      step.weight = layer && graph_.layers()[*layer].type == "weight";
      if (node.gradient_slots > 0 && bears_gradient(node.input)) {
        step.first_use = program_.use_counts[step.slot];
        program_.use_counts[step.slot] += node.gradient_slots;
      }
      program_.consumers.push_back(std::move(step));
    }
  }

  void check_gradient_slots() const {
    for (std::size_t i = 0; i < graph_.producers().size(); ++i) {
      const ProducerNode& node = graph_.producers()[i];
      if (node.gradient_slots == program_.use_counts[i]) continue;
      fail(ErrorCode::kInvalidArgument,
           "boundary '{}' declares {} gradients, but {} of its uses lead to a loss: cut the graph "
           "with "
           "partition_graph or auto_partition",
           node.name, node.gradient_slots, program_.use_counts[i]);
    }
  }

  // Inference frees a tensor after its last reading, unless a consumer or a tap still needs it.
  void find_last_reads() {
    const std::size_t producers = graph_.producers().size();
    program_.needed_for_inference.assign(producers, false);
    std::vector<bool> read_later(program_.slot_count, false);
    for (const TapStep& step : program_.taps) {
      read_later[step.prediction.slot] = read_later[step.target] = true;
    }
    for (const ConsumerStep& step : program_.consumers) {
      read_later[step.slot] = true;
      if (step.slot < producers) program_.needed_for_inference[step.slot] = true;
    }
    for (auto step = program_.layers.rbegin(); step != program_.layers.rend(); ++step) {
      for (const Use& input : step->inputs) {
        if (input.slot < producers) program_.needed_for_inference[input.slot] = true;
        if (!read_later[input.slot]) step->last_reads.push_back(input.slot);
        read_later[input.slot] = true;
      }
    }
  }

  bool is_by_sample(std::size_t layer) const {
    const std::string& type = graph_.layers()[layer].type;
    static const std::set<std::string, std::less<>> kTypes = {
        "adaptive_avg_pool", "adaptive_max_pool", "add", "avg_pool", "batch_norm", "conv2d",
        "max_pool"};
    return kTypes.contains(type) && program_.layers[layer].given_weight < 0;
  }

  // Layers with a convolution among them: there alone the work is worth the going to and fro.
  void find_sample_runs() {
    const std::vector<LayerNode>& layers = graph_.layers();
    std::size_t end = 0;
    for (std::size_t first = 0; first < layers.size(); first = end + 1) {
      bool convolves = false;
      for (end = first; end < layers.size() && is_by_sample(end); ++end) {
        convolves = convolves || layers[end].type == "conv2d";
      }
      if (convolves) split_sample_run(first, end);
    }
  }

  // A new run begins where all that is still to come is half as large: more samples fit.
  void split_sample_run(std::size_t first, std::size_t end) {
    std::vector<std::size_t> largest(end - first);
    std::size_t so_far = 0;
    for (std::size_t i = end; i-- > first;) {
      so_far = std::max(so_far, sample_bytes_of(graph_.layer_shape(i).output));
      largest[i - first] = so_far;
    }
    SampleRun run{first, first};
    for (std::size_t i = first; i < end; ++i) {
      const std::size_t bytes = largest[i - first];
      if (run.end > run.first && std::bit_width(bytes) < std::bit_width(run.sample_bytes)) {
        add_sample_run(std::move(run));
        run = SampleRun{i, i};
      }
      run.sample_bytes = std::max(run.sample_bytes, bytes);
      run.end = i + 1;
    }
    add_sample_run(std::move(run));
  }

  static std::size_t sample_bytes_of(const TensorSpec& spec) {
    return static_cast<std::size_t>(element_count(spec.shape)) * dtype_size(spec.dtype);
  }

  void add_sample_run(SampleRun run) {
    const auto producers = static_cast<std::uint32_t>(graph_.producers().size());
    const auto first = producers + static_cast<std::uint32_t>(run.first);
    const auto end = producers + static_cast<std::uint32_t>(run.end);
    std::set<std::uint32_t> entering, over;
    for (std::size_t i = run.first; i < run.end; ++i) {
      for (const Use& input : program_.layers[i].inputs) {
        if (input.slot < first) entering.insert(input.slot);
      }
      over.insert(program_.layers[i].last_reads.begin(), program_.layers[i].last_reads.end());
    }
    run.entering.assign(entering.begin(), entering.end());
    for (std::uint32_t slot = first; slot < end; ++slot) {
      if (!over.contains(slot)) run.leaving.push_back(slot);
    }
    program_.sample_runs.push_back(std::move(run));
  }

  const HarmonicGraph& graph_;
  const std::uint64_t seed_;
  Program& program_;
  std::size_t parameters_ = 0;
  std::map<std::string, std::uint32_t, std::less<>> slots_;
  std::set<std::string, std::less<>> leading_;
};

}  // namespace

Program::Program(const HarmonicGraph& graph, std::uint64_t seed) {
  Compiler(graph, seed, *this).compile();
}

void Program::set_seed(std::uint64_t seed) {
  for (LayerStep& step : layers) step.key = random_key(seed, step.name);
}

}  // namespace harmonics::inline in_runtime
