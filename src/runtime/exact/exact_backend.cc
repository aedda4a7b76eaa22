#include "exact_backend.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/runtime/devices.h>

#include "backends.h"
#include "decay.h"
#include "exact_rate.h"
#include "exact_threads.h"
#include "inputs.h"
#include "kernels/kernels.h"

namespace harmonics::inline in_runtime {
namespace {

const std::vector<bool> kNoneWanted;

[[noreturn]] void refuse_layer(const LayerNode& node, const std::string& why) {
  fail(ErrorCode::kUnimplemented,
       "layer '{}' ({}) {}: a reproducible run takes {}; leave --reproducible out or change it",
       node.name, node.type, why, listed(exact_layer_names()));
}

ExactOperationPtr known_activation(const std::string& name, const std::string& owner) {
  if (name.empty()) return nullptr;
  ExactOperationPtr made = is_builtin_activation(name) ? make_exact_activation(name) : nullptr;
  if (made == nullptr) {
    fail(ErrorCode::kUnimplemented,
         "the activation {} of '{}' has no reproducible form: leave --reproducible out or change "
         "it",
         name, owner);
  }
  return made;
}

}  // namespace

std::unique_ptr<StageBackend> make_exact_backend(HarmonicGraph graph,
                                                 const RuntimeOptions& options) {
  return std::make_unique<ExactBackend>(std::move(graph), options);
}

ExactBackend::ExactBackend(HarmonicGraph graph, const RuntimeOptions& options)
    : graph_(std::move(graph)),
      kernels_(exact_kernels()),
      optimizer_(options.optimizer),
      program_(graph_, options.seed) {
  refuse_unknown();
  make_operations();
  add_parameters(options.seed);
}

void ExactBackend::refuse_unknown() const {
  if (!computes_in_float32(graph_)) {
    fail(ErrorCode::kUnimplemented,
         "graph '{}' computes in float64, a reproducible run only in float32: leave "
         "--reproducible out",
         graph_.name());
  }
  if (!graph_.axes().empty()) {
    fail(ErrorCode::kUnimplemented,
         "graph '{}' follows the axis {}, a reproducible run computes fixed shapes: fix it with "
         "--axis {}={}",
         graph_.name(), graph_.axes().front().name, graph_.axes().front().name,
         graph_.axes().front().value);
  }
  for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
    const LayerNode& node = graph_.layers()[i];
    if (is_frozen(node)) refuse_layer(node, "is frozen, which is not known there");
    if (graph_.layer_shape(i).given_weight >= 0) {
      refuse_layer(node, "takes its weight from another part, which is not known there");
    }
    for (const ParameterSpec& spec : graph_.layer_shape(i).parameters) {
      if (!spec.tied_to.empty()) refuse_layer(node, "is tied, which is not known there");
    }
  }
}

void ExactBackend::add_parameters(std::uint64_t seed) {
  for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
    const LayerShape& shape = graph_.layer_shape(i);
    for (const ParameterSpec& spec : shape.parameters) {
      Parameter made;
      made.name = parameter_name(graph_.layers()[i], spec);
      made.value = exact_start_weights(kernels_, spec, seed, made.name);
      if (spec.trainable) made.gradient = Tensor::zeros(spec.shape);
      made.bias_or_norm = is_bias_or_norm(graph_.layers()[i], spec);
      parameters_.push_back(std::move(made));
    }
  }
}

void ExactBackend::make_operations() {
  for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
    const LayerNode& node = graph_.layers()[i];
    std::vector<TensorSpec> inputs;
    for (const std::string& input : node.inputs) inputs.push_back(graph_.spec(input));
    const Attributes attributes = graph_.full_attributes(i);
    const LayerQuery query{node.name, node.type, inputs, attributes};
    ExactOperationPtr own;
    if (is_builtin_layer(node.type)) own = make_exact_layer(query, graph_.layer_shape(i).output);
    if (own == nullptr) refuse_layer(node, "has no reproducible form, or not this one");
    layers_.push_back(std::move(own));
    activations_.push_back(known_activation(node.activation, node.name));
  }
  for (const ConsumerNode& node : graph_.consumers()) {
    consumer_activations_.push_back(known_activation(node.activation, node.name));
  }
  for (const TapStep& tap : program_.taps) {
    ExactLossPtr loss = is_builtin_loss(tap.loss_name) ? make_exact_loss(tap.loss_name) : nullptr;
    if (loss == nullptr) {
      fail(ErrorCode::kUnimplemented,
           "the loss {} of '{}' has no reproducible form: leave --reproducible out or change it",
           tap.loss_name, tap.prediction_name);
    }
    losses_.push_back(std::move(loss));
  }
}

ExactBackend::Flight ExactBackend::run(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                       Mode mode) {
  Flight flight;
  flight.micro_batch = micro_batch;
  flight.values.resize(program_.slot_count);
  const Tensors taken = take_inputs(graph_, program_, inputs, mode != Mode::kInfer).tensors;
  for (std::size_t slot = 0; slot < taken.size(); ++slot) {
    if (!taken[slot].defined()) continue;
    const Tensor here = cpu_tensor(taken[slot]);
    const bool floats = is_floating(graph_.producers()[slot].dtype);
    flight.values[slot] = floats ? convert_tensor(here, DType::kFloat32) : here;
  }
  if (mode == Mode::kTrain) flight.layers.resize(program_.layers.size());
  for (std::size_t i = 0; i < program_.layers.size(); ++i) {
    LayerTrace scratch;
    Tensor output = compute(i, flight, mode == Mode::kTrain ? flight.layers[i] : scratch, mode);
    if (mode != Mode::kTrain) {
      for (const std::uint32_t slot : program_.layers[i].last_reads) flight.values[slot] = {};
    }
    flight.values[program_.layers[i].output] = std::move(output);
  }
  return flight;
}

Tensor ExactBackend::compute(std::size_t layer, Flight& flight, LayerTrace& trace, Mode mode) {
  const LayerStep& step = program_.layers[layer];
  for (const Use& input : step.inputs) trace.inputs.push_back(flight.values[input.slot]);
  const Tensors own = parameter_values(step.first_parameter, step.own_parameters);
  ExactCall call{kernels_, trace.inputs, own, {}, kNoneWanted};
  call.training = mode == Mode::kTrain;
  call.key = step.key;
  call.step = flight.micro_batch.step;
  call.first_sample = flight.micro_batch.first_sample;
  Tensor value = layers_[layer]->forward(call, trace.kept);
  if (activations_[layer] == nullptr) return value;
  const Tensors slopes =
      parameter_values(step.first_parameter + step.own_parameters, step.activation_parameters);
  const Tensors before = {value};
  const ExactCall after{kernels_, before, slopes, {}, kNoneWanted, call.training};
  Tensor active = activations_[layer]->forward(after, trace.activation_kept);
  if (call.training) trace.before_activation = value;
  return active;
}

void ExactBackend::run_taps(const Flight& flight, TapReport& report) const {
  for (std::size_t i = 0; i < program_.taps.size(); ++i) {
    const TapStep& tap = program_.taps[i];
    const ExactLosses losses = losses_[i]->forward(kernels_, flight.values[tap.prediction.slot],
                                                   flight.values[tap.target]);
    double sum = 0;
    for (const float loss : losses.samples) sum += loss;
    report.loss_sum += tap.weight * sum;
    if (!tap.judges) continue;
    report.judged += losses.judged;
    report.correct += losses.correct;
  }
}

NamedTensors ExactBackend::leave(const Flight& flight) const {
  NamedTensors outputs;
  for (std::size_t i = 0; i < program_.consumers.size(); ++i) {
    const ConsumerStep& step = program_.consumers[i];
    Tensor value = flight.values[step.slot];
    if (consumer_activations_[i] != nullptr) {
      const Tensors before = {value};
      ExactKept unused;
      value = consumer_activations_[i]->forward({kernels_, before, {}, {}, kNoneWanted}, unused);
    }
    outputs.emplace(step.name, value);
  }
  return outputs;
}

NamedTensors ExactBackend::infer(const NamedTensors& inputs) {
  return leave(run({}, inputs, Mode::kInfer));
}

NamedTensors ExactBackend::evaluate(const NamedTensors& inputs, TapReport& report) {
  const Flight flight = run({}, inputs, Mode::kEvaluate);
  run_taps(flight, report);
  return leave(flight);
}

NamedTensors ExactBackend::forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                   TapReport& report) {
  Flight flight = run(micro_batch, inputs, Mode::kTrain);
  run_taps(flight, report);
  NamedTensors outputs = leave(flight);
  flights_.insert_or_assign(micro_batch.index, std::move(flight));
  return outputs;
}

std::string ExactBackend::first_non_finite() {
  for (const auto& [index, flight] : flights_) {
    for (std::size_t slot = 0; slot < flight.values.size(); ++slot) {
      const Tensor& value = flight.values[slot];
      if (!value.defined() || value.dtype() != DType::kFloat32) continue;
      if (std::ranges::all_of(value.values<float>(), [](float x) { return std::isfinite(x); })) {
        continue;
      }
      const std::size_t producers = graph_.producers().size();
      return slot < producers ? format("producer '{}'", graph_.producers()[slot].name)
                              : format("layer '{}'", graph_.layers()[slot - producers].name);
    }
  }
  return {};
}

std::vector<std::pair<std::string, Tensor>> ExactBackend::layer_values(std::uint32_t micro_batch) {
  const auto found = flights_.find(micro_batch);
  if (found == flights_.end()) {
    fail(ErrorCode::kFailedPrecondition, "micro-batch {} has had no forward pass", micro_batch);
  }
  std::vector<std::pair<std::string, Tensor>> values;
  for (const LayerStep& step : program_.layers) {
    values.emplace_back(step.name, found->second.values[step.output]);
  }
  return values;
}

}  // namespace harmonics::inline in_runtime
