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

PlacedOperationPtr known_activation(ExactPlace& place, const std::string& name,
                                    const std::string& owner) {
  if (name.empty()) return nullptr;
  PlacedOperationPtr made = is_builtin_activation(name) ? place.activation(name) : nullptr;
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
  return std::make_unique<ExactBackend>(std::move(graph), options, make_exact_place(options));
}

ExactBackend::ExactBackend(HarmonicGraph graph, const RuntimeOptions& options,
                           std::unique_ptr<ExactPlace> place)
    : graph_(std::move(graph)),
      place_(std::move(place)),
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
      place_->at(format("parameter '{}'", made.name));
      made.value = place_->take(exact_start_weights(exact_kernels(), spec, seed, made.name));
      if (spec.trainable) made.gradient = place_->zeros(spec.shape);
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
    place_->at(format("layer '{}'", node.name));
    PlacedOperationPtr own;
    if (is_builtin_layer(node.type)) own = place_->layer(query, graph_.layer_shape(i).output);
    if (own == nullptr) refuse_layer(node, "has no reproducible form, or not this one");
    layers_.push_back(std::move(own));
    activations_.push_back(known_activation(*place_, node.activation, node.name));
  }
  for (const ConsumerNode& node : graph_.consumers()) {
    consumer_activations_.push_back(known_activation(*place_, node.activation, node.name));
  }
  for (const TapStep& tap : program_.taps) {
    PlacedLossPtr loss = is_builtin_loss(tap.loss_name) ? place_->loss(tap.loss_name) : nullptr;
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
  const std::vector<Tensor> taken =
      take_inputs(graph_, program_, inputs, mode != Mode::kInfer).tensors;
  for (std::size_t slot = 0; slot < taken.size(); ++slot) {
    if (!taken[slot].defined()) continue;
    const Tensor here = cpu_tensor(taken[slot]);
    const bool floats = is_floating(graph_.producers()[slot].dtype);
    place_->at(format("producer '{}'", graph_.producers()[slot].name));
    flight.values[slot] = place_->take(floats ? convert_tensor(here, DType::kFloat32) : here);
  }
  if (mode == Mode::kTrain) flight.layers.resize(program_.layers.size());
  for (std::size_t i = 0; i < program_.layers.size(); ++i) {
    LayerTrace scratch;
    ExactArray output = compute(i, flight, mode == Mode::kTrain ? flight.layers[i] : scratch, mode);
    if (mode != Mode::kTrain) {
      for (const std::uint32_t slot : program_.layers[i].last_reads) flight.values[slot] = {};
    }
    flight.values[program_.layers[i].output] = std::move(output);
  }
  return flight;
}

ExactArray ExactBackend::compute(std::size_t layer, Flight& flight, LayerTrace& trace, Mode mode) {
  const LayerStep& step = program_.layers[layer];
  place_->at(format("layer '{}'", step.name));
  for (const Use& input : step.inputs) trace.inputs.push_back(flight.values[input.slot]);
  const Arrays own = parameter_values(step.first_parameter, step.own_parameters);
  PlacedCall call{trace.inputs, own, {}, kNoneWanted};
  call.training = mode == Mode::kTrain;
  call.key = step.key;
  call.step = flight.micro_batch.step;
  call.first_sample = flight.micro_batch.first_sample;
  ExactArray value = layers_[layer]->forward(call, trace.kept);
  if (activations_[layer] == nullptr) return value;
  const Arrays slopes =
      parameter_values(step.first_parameter + step.own_parameters, step.activation_parameters);
  const Arrays before = {value};
  const PlacedCall after{before, slopes, {}, kNoneWanted, call.training};
  ExactArray active = activations_[layer]->forward(after, trace.activation_kept);
  if (call.training) trace.before_activation = value;
  return active;
}

void ExactBackend::run_taps(const Flight& flight, TapReport& report) const {
  for (std::size_t i = 0; i < program_.taps.size(); ++i) {
    const TapStep& tap = program_.taps[i];
    place_->at(format("the loss of '{}'", tap.prediction_name));
    const ExactLosses losses =
        losses_[i]->forward(flight.values[tap.prediction.slot], flight.values[tap.target]);
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
    ExactArray value = flight.values[step.slot];
    place_->at(format("consumer '{}'", step.name));
    if (consumer_activations_[i] != nullptr) {
      const Arrays before = {value};
      PlacedKept unused;
      value = consumer_activations_[i]->forward({before, {}, {}, kNoneWanted}, unused);
    }
    outputs.emplace(step.name, place_->give(value));
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
      if (!flight.values[slot].defined() || flight.values[slot].dtype != DType::kFloat32) continue;
      const Tensor value = place_->give(flight.values[slot]);
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
    values.emplace_back(step.name, place_->give(found->second.values[step.output]));
  }
  return values;
}

}  // namespace harmonics::inline in_runtime
