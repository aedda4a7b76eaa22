#include "opencl_backend.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>
#include <harmonics/runtime/devices.h>

#include "backends.h"
#include "decay.h"
#include "inputs.h"
#include "opencl_exact_device.h"
#include "opencl_fallback.h"
#include "start_weights.h"

namespace harmonics::inline in_runtime {
namespace {

const std::vector<bool> kNothingWanted;

void check_precision(PrecisionPolicy policy, const HarmonicGraph& graph) {
  if (policy == PrecisionPolicy::kFp16) {
    fail(ErrorCode::kUnimplemented,
         "precision fp16 needs a GPU: the fpga backend computes in float32; use full or bf16");
  }
  if (policy == PrecisionPolicy::kBf16) {
    log_warn("runtime", "graph '{}': the fpga backend computes in float32, not in bf16",
             graph.name());
  }
}

}  // namespace

/// The link options of the target name this, so that the linker takes the part in: nothing else
/// asks for it.
extern "C" void harmonics_runtime_opencl_part() {}

std::unique_ptr<StageBackend> make_opencl_backend(HarmonicGraph graph,
                                                  const RuntimeOptions& options,
                                                  std::size_t device) {
  return std::make_unique<OpenClBackend>(std::move(graph), options, device);
}

// Here, where the linker has to take it in, and not beside the class.
std::unique_ptr<ExactDevice> make_exact_opencl_device(std::size_t number,
                                                      std::uint64_t memory_limit_bytes) {
  return std::make_unique<ExactOpenClDevice>(number, memory_limit_bytes);
}

OpenClBackend::OpenClBackend(HarmonicGraph graph, const RuntimeOptions& options, std::size_t device)
    : graph_(std::move(graph)),
      device_(device),
      optimizer_(options.optimizer),
      program_(graph_, options.seed),
      is_target_(program_.slot_count, false) {
  check_precision(options.precision, graph_);
  queue_ = std::make_unique<OpenClQueue>(device, options.device_memory_bytes);
  for (const TapStep& tap : program_.taps) is_target_[tap.target] = true;
  add_parameters(options.seed);
  make_operations();
  warn_of_fallbacks();
}

void OpenClBackend::add_parameters(std::uint64_t seed) {
  for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
    const LayerShape& shape = graph_.layer_shape(i);
    for (const ParameterSpec& spec : shape.parameters) {
      Parameter made;
      made.name = graph_.layers()[i].name + "." + spec.name;
      queue_->at(format("parameter '{}'", made.name));
      made.value = queue_->upload(start_weights(spec, shape.output.dtype, seed, made.name));
      if (spec.trainable) made.gradient = queue_->zeros(spec.shape);
      made.bias_or_norm = is_bias_or_norm(graph_.layers()[i], spec);
      parameters_.push_back(std::move(made));
    }
  }
}

void OpenClBackend::make_operations() {
  for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
    const LayerNode& node = graph_.layers()[i];
    layers_.push_back(make_layer(i));
    activations_.push_back(node.activation.empty() ? nullptr
                                                   : make_activation(node.activation, node.name));
  }
  for (const ConsumerNode& node : graph_.consumers()) {
    consumer_activations_.push_back(
        node.activation.empty() ? nullptr : make_activation(node.activation, node.name));
  }
  for (std::size_t i = 0; i < program_.taps.size(); ++i) losses_.push_back(make_loss(i));
}

DeviceOperationPtr OpenClBackend::make_layer(std::size_t index) {
  const LayerNode& node = graph_.layers()[index];
  std::vector<TensorSpec> inputs;
  for (const std::string& input : node.inputs) inputs.push_back(graph_.spec(input));
  const Attributes attributes = graph_.full_attributes(index);
  const LayerQuery query{node.name, node.type, inputs, attributes};
  if (DeviceOperationPtr own = make_device_layer(query, graph_.layer_shape(index).output)) {
    return own;
  }
  note_fallback(node.type, node.name);
  std::vector<bool> trainable;
  for (std::size_t i = 0; i < program_.layers[index].own_parameters; ++i) {
    trainable.push_back(graph_.layer_shape(index).parameters[i].trainable);
  }
  return make_fallback_layer(node.name, program_.layers[index].forward, std::move(trainable));
}

DeviceOperationPtr OpenClBackend::make_activation(const std::string& name,
                                                  const std::string& owner) {
  if (DeviceOperationPtr own = make_device_activation(name)) return own;
  note_fallback(name, owner);
  return make_fallback_activation(owner, torch_activation(name),
                                  find_activation_type(name)->parameters.size());
}

DeviceLossPtr OpenClBackend::make_loss(std::size_t tap) {
  const TapStep& step = program_.taps[tap];
  TensorSpec target;
  const std::size_t producers = graph_.producers().size();
  if (step.target < producers) {
    const ProducerNode& node = graph_.producers()[step.target];
    // Class ids of any width enter as int64.
    target = {*node.shape, is_floating(node.dtype) ? node.dtype : DType::kInt64};
  } else {
    target = graph_.layer_shape(step.target - producers).output;
  }
  const bool short_ids = !is_floating(target.dtype) && target.dtype != DType::kInt64;
  if (!short_ids) {
    DeviceLossPtr own = make_device_loss(step.loss_name, graph_.spec(step.prediction_name), target);
    if (own != nullptr) return own;
  }
  note_fallback(step.loss_name, step.prediction_name);
  return make_fallback_loss(step.loss_name, step.loss, step.judges);
}

void OpenClBackend::note_fallback(const std::string& operation, const std::string& user) {
  fallbacks_[operation].push_back(user);
}

void OpenClBackend::warn_of_fallbacks() const {
  for (const auto& [operation, users] : fallbacks_) {
    log_warn("runtime",
             "the fpga backend has no operation '{}': it runs on the CPU (graph '{}': {})",
             operation, graph_.name(), listed(users));
  }
}

std::string OpenClBackend::place() const { return format("opencl:{}", device_); }

std::vector<std::string> OpenClBackend::fallbacks() const {
  std::vector<std::string> names;
  for (const auto& [operation, users] : fallbacks_) names.push_back(operation);
  return names;
}

DeviceTensor OpenClBackend::enter(std::size_t slot, const Tensor& given) {
  const ProducerNode& node = graph_.producers()[slot];
  queue_->at(format("producer '{}'", node.name));
  const Tensor here = cpu_tensor(given);
  if (is_floating(node.dtype)) return queue_->upload(convert_tensor(here, DType::kFloat32));
  return queue_->upload(is_target_[slot] ? convert_tensor(here, DType::kInt64) : here);
}

OpenClBackend::Flight OpenClBackend::run(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                         Mode mode) {
  Flight flight;
  flight.micro_batch = micro_batch;
  flight.values.resize(program_.slot_count);
  const std::vector<Tensor> taken =
      take_inputs(graph_, program_, inputs, mode != Mode::kInfer).tensors;
  for (std::size_t slot = 0; slot < taken.size(); ++slot) {
    if (taken[slot].defined()) flight.values[slot] = enter(slot, taken[slot]);
  }
  if (mode == Mode::kTrain) flight.layers.resize(program_.layers.size());
  for (std::size_t i = 0; i < program_.layers.size(); ++i) {
    LayerTrace scratch;
    LayerTrace& trace = mode == Mode::kTrain ? flight.layers[i] : scratch;
    DeviceTensor output = compute(i, flight, trace, mode);
    if (mode != Mode::kTrain) {
      for (const std::uint32_t slot : program_.layers[i].last_reads) flight.values[slot] = {};
    }
    flight.values[program_.layers[i].output] = std::move(output);
  }
  return flight;
}

DeviceTensor OpenClBackend::compute(std::size_t layer, Flight& flight, LayerTrace& trace,
                                    Mode mode) {
  const LayerStep& step = program_.layers[layer];
  queue_->at(format("layer '{}'", step.name));
  for (const Use& input : step.inputs) trace.inputs.push_back(flight.values[input.slot]);
  const DeviceTensors own = parameter_values(step.first_parameter, step.own_parameters);
  DeviceCall call{*queue_, trace.inputs, own, {}, kNothingWanted};
  call.training = mode == Mode::kTrain;
  call.key = step.key;
  call.step = flight.micro_batch.step;
  call.first_sample = flight.micro_batch.first_sample;
  DeviceTensor value = layers_[layer]->forward(call, trace.kept);
  if (call.training) trace.kept.output = value;
  if (activations_[layer] == nullptr) return value;
  const DeviceTensors slopes =
      parameter_values(step.first_parameter + step.own_parameters, step.activation_parameters);
  const std::vector<DeviceTensor> before = {value};
  DeviceCall after{*queue_, before, slopes, {}, kNothingWanted, call.training};
  DeviceTensor active = activations_[layer]->forward(after, trace.activation_kept);
  if (call.training) {
    trace.before_activation = value;
    trace.activation_kept.output = active;
  }
  return active;
}

namespace {

void judge(const TapStep& tap, const Tensor& right, std::int64_t classes, TapReport& report) {
  for (const std::int32_t judged : right.values<std::int32_t>()) {
    if (judged < 0) {
      fail(ErrorCode::kInvalidArgument,
           "the loss of '{}': a target is no class id of the prediction's {} classes",
           tap.prediction_name, classes);
    }
    report.correct += judged;
    ++report.judged;
  }
}

}  // namespace

void OpenClBackend::run_taps(Flight& flight, TapReport& report) {
  for (std::size_t i = 0; i < program_.taps.size(); ++i) {
    const TapStep& tap = program_.taps[i];
    queue_->at(format("the loss of '{}'", tap.prediction_name));
    DeviceLosses losses =
        losses_[i]->forward(*queue_, flight.values[tap.prediction.slot], flight.values[tap.target]);
    double sum = 0;
    const Tensor samples = queue_->download(losses.samples);
    for (const float loss : samples.values<float>()) sum += loss;
    report.loss_sum += tap.weight * sum;
    if (tap.judges) {
      judge(tap, queue_->download(losses.right), flight.values[tap.prediction.slot].shape.back(),
            report);
    }
    flight.losses.push_back(std::move(losses));
  }
}

NamedTensors OpenClBackend::leave(const Flight& flight) {
  NamedTensors outputs;
  for (std::size_t i = 0; i < program_.consumers.size(); ++i) {
    const ConsumerStep& step = program_.consumers[i];
    queue_->at(format("consumer '{}'", step.name));
    DeviceTensor value = flight.values[step.slot];
    if (consumer_activations_[i] != nullptr) {
      const std::vector<DeviceTensor> before = {value};
      KeptTensors unused;
      value = consumer_activations_[i]->forward({*queue_, before, {}, {}, kNothingWanted}, unused);
    }
    outputs.emplace(step.name, queue_->download(value));
  }
  return outputs;
}

NamedTensors OpenClBackend::infer(const NamedTensors& inputs) {
  return leave(run({}, inputs, Mode::kInfer));
}

NamedTensors OpenClBackend::evaluate(const NamedTensors& inputs, TapReport& report) {
  Flight flight = run({}, inputs, Mode::kEvaluate);
  run_taps(flight, report);
  return leave(flight);
}

NamedTensors OpenClBackend::forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                    TapReport& report) {
  Flight flight = run(micro_batch, inputs, Mode::kTrain);
  run_taps(flight, report);
  NamedTensors outputs = leave(flight);
  flights_.insert_or_assign(micro_batch.index, std::move(flight));
  return outputs;
}

std::string OpenClBackend::first_non_finite() {
  for (const auto& [index, flight] : flights_) {
    for (std::size_t slot = 0; slot < flight.values.size(); ++slot) {
      const DeviceTensor& value = flight.values[slot];
      if (!value.defined() || value.dtype != DType::kFloat32) continue;
      const Tensor here = queue_->download(value);
      if (std::ranges::all_of(here.values<float>(), [](float x) { return std::isfinite(x); })) {
        continue;
      }
      const std::size_t producers = graph_.producers().size();
      return slot < producers ? format("producer '{}'", graph_.producers()[slot].name)
                              : format("layer '{}'", graph_.layers()[slot - producers].name);
    }
  }
  return {};
}

}  // namespace harmonics::inline in_runtime
