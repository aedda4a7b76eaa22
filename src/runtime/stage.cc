#include <harmonics/runtime/stage.h>

#include <torch/torch.h>

#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/tensor/torch.h>

#include "fan_out.h"
#include "stage_state.h"
#include "start_weights.h"

namespace harmonics {
namespace {

at::Device torch_device(Device device) {
  return device.kind == DeviceKind::kCuda
             ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index))
             : at::Device(at::kCPU);
}

bool all_finite(const at::Tensor& tensor) {
  if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type())) return true;
  return at::isfinite(tensor).all().item<bool>();
}

PrecisionPolicy decide(PrecisionPolicy policy, Device device) {
  if (policy == PrecisionPolicy::kAuto) {
    return device.kind == DeviceKind::kCuda ? PrecisionPolicy::kBf16 : PrecisionPolicy::kFull;
  }
  if (policy == PrecisionPolicy::kFp16 && device.kind == DeviceKind::kCpu) {
    fail(ErrorCode::kUnimplemented,
         "precision fp16 needs a GPU: libtorch has no fp16 matrix product on the CPU; use bf16 or "
         "full");
  }
  return policy;
}

/// Turns libtorch's exceptions into ours, with the name of what was being computed.
template <typename Function>
auto guarded(const char* what, std::string_view name, Function&& function) {
  try {
    return function();
  } catch (const c10::Error& error) {
    std::string text = error.what_without_backtrace();
    if (const auto end = text.find('\n'); end != std::string::npos) text.resize(end);
    fail(ErrorCode::kInvalidArgument, "{} '{}': {}", what, name, text);
  }
}

}  // namespace

TapReport& TapReport::operator+=(const TapReport& other) {
  loss_sum += other.loss_sum;
  judged += other.judged;
  correct += other.correct;
  return *this;
}

Stage::State::State(HarmonicGraph given, const RuntimeOptions& options)
    : graph(std::move(given)),
      device(resolve_device(options.backend, options.device_index, options.strict)),
      precision(decide(options.precision, device)),
      program(graph, options.seed),
      optimizer(options.optimizer) {
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const LayerShape& shape = graph.layer_shape(i);
    for (const ParameterSpec& spec : shape.parameters) {
      const std::string name = graph.layers()[i].name + "." + spec.name;
      at::Tensor value = to_torch(start_weights(spec, shape.output.dtype, options.seed, name))
                             .clone()
                             .to(torch_device(device));
      value.set_requires_grad(spec.trainable);
      names.push_back(name);
      parameters.push_back(std::move(value));
    }
  }
}

at::Tensor Stage::State::enter(const ProducerNode& node, const Tensor& given) const {
  const Shape& shape = given.shape();
  if (shape.empty() ||
      !std::equal(shape.begin() + 1, shape.end(), node.shape->begin(), node.shape->end())) {
    fail(ErrorCode::kInvalidArgument,
         "producer '{}' takes batches of {}, a tensor of shape {} came", node.name,
         shape_text(*node.shape), shape_text(shape));
  }
  // Boundary tensors of a mixed-precision run may be narrower floats; whole numbers may be of any
  // width, since ids are widened where they are used.
  if (is_floating(node.dtype) != is_floating(given.dtype())) {
    fail(ErrorCode::kInvalidArgument, "producer '{}' is declared as {}, a tensor of {} came",
         node.name, dtype_name(node.dtype), dtype_name(given.dtype()));
  }
  at::Tensor value = to_torch(given);
  if (device.kind != DeviceKind::kCpu || given.device().kind != DeviceKind::kCpu) {
    value = value.to(torch_device(device));
  }
  const bool widen =
      given.dtype() != node.dtype && !is_boundary_name(node.name) && is_floating(node.dtype);
  return widen ? value.to(node.dtype == DType::kFloat64 ? at::kDouble : at::kFloat) : value;
}

Tensors Stage::State::collect(const NamedTensors& inputs, bool with_targets) const {
  Tensors values(program.slot_count);
  std::int64_t rows = -1;
  for (std::size_t i = 0; i < graph.producers().size(); ++i) {
    const ProducerNode& node = graph.producers()[i];
    if (!with_targets && !program.needed_for_inference[i]) continue;
    const auto given = inputs.find(node.name);
    if (given == inputs.end()) {
      fail(ErrorCode::kFailedPrecondition, "producer '{}' of graph '{}' has no data: bind it",
           node.name, graph.name());
    }
    values[i] = enter(node, given->second);
    if (rows >= 0 && values[i].size(0) != rows) {
      fail(ErrorCode::kInvalidArgument, "producer '{}' brings a batch of {}, the others bring {}",
           node.name, values[i].size(0), rows);
    }
    rows = values[i].size(0);
  }
  return values;
}

at::Tensor Stage::State::compute(const LayerStep& step, const MicroBatch& micro_batch, Mode mode,
                                 const Tensors& inputs) const {
  const std::span<const at::Tensor> all(parameters);
  LayerCall call;
  call.inputs = inputs;
  call.parameters = all.subspan(step.first_parameter, step.own_parameters);
  call.training = mode == Mode::kTrain;
  call.compute = precision == PrecisionPolicy::kBf16   ? at::kBFloat16
                 : precision == PrecisionPolicy::kFp16 ? at::kHalf
                 : call.parameters.empty()             ? at::kFloat
                                                       : call.parameters[0].scalar_type();
  call.key = step.key;
  call.step = micro_batch.step;
  call.first_sample = micro_batch.first_sample;
  return guarded("layer", step.name, [&] {
    at::Tensor value = step.forward(call);
    if (step.activation) {
      value = step.activation(value, all.subspan(step.first_parameter + step.own_parameters,
                                                 step.activation_parameters));
    }
    if (value.dim() == 0 || value.sizes().slice(1) != c10::IntArrayRef(step.output_shape)) {
      fail(ErrorCode::kInternal, "layer '{}' computed {} per sample, the graph expects {}",
           step.name, c10::str(value.sizes()), shape_text(step.output_shape));
    }
    return value.contiguous();
  });
}

Flight Stage::State::run(const MicroBatch& micro_batch, Tensors values, Mode mode) const {
  Flight flight;
  flight.values = std::move(values);
  flight.batch_samples = micro_batch.batch_samples;
  const bool training = mode == Mode::kTrain;
  if (training) {
    flight.aliases.resize(program.slot_count);
    for (std::size_t slot = 0; slot < graph.producers().size(); ++slot) {
      for (std::uint32_t use = 0; use < program.use_counts[slot]; ++use) {
        flight.aliases[slot].push_back(flight.values[slot].detach().requires_grad_(true));
      }
    }
  }
  Tensors inputs;
  for (const LayerStep& step : program.layers) {
    inputs.clear();
    for (const Use& input : step.inputs) {
      const at::Tensor& value = flight.values[input.slot];
      if (!training) {
        inputs.push_back(value);
      } else {
        inputs.push_back(input.use == kNoUse ? value.detach()
                                             : flight.aliases[input.slot][input.use]);
      }
    }
    at::Tensor output = compute(step, micro_batch, mode, inputs);
    if (!training) {
      for (const std::uint32_t slot : step.last_reads) flight.values[slot].reset();
    } else if (const std::uint32_t uses = program.use_counts[step.output]; uses > 0) {
      if (output.requires_grad()) {
        // A gradient that crosses a boundary is contiguous; so it is everywhere.
        output.register_hook([](const at::Tensor& gradient) { return gradient.contiguous(); });
      }
      flight.aliases[step.output] =
          uses > 1 && output.requires_grad() ? fan_out(output, uses) : Tensors(uses, output);
    }
    flight.values[step.output] = std::move(output);
  }
  return flight;
}

void Stage::State::run_taps(Flight& flight, Mode mode, TapReport& report) const {
  for (const TapStep& tap : program.taps) {
    const at::Tensor& prediction = mode == Mode::kTrain && tap.prediction.use != kNoUse
                                       ? flight.aliases[tap.prediction.slot][tap.prediction.use]
                                       : flight.values[tap.prediction.slot];
    const at::Tensor target = flight.values[tap.target].detach();
    at::Tensor sum = guarded("the loss of", tap.prediction_name,
                             [&] { return tap.loss(prediction, target).sum(); });
    report.loss_sum += tap.weight * sum.item<double>();
    if (tap.judges) {
      const at::Tensor best = prediction.detach().argmax(-1);
      const at::Tensor right = at::isFloatingType(target.scalar_type())
                                   ? target.argmax(-1)
                                   : target.to(at::kLong).reshape(best.sizes());
      report.correct += best.eq(right).sum().item<std::int64_t>();
      report.judged += best.numel();
    }
    flight.losses.push_back(std::move(sum));
  }
}

NamedTensors Stage::State::leave(const Flight& flight, Mode mode) const {
  NamedTensors outputs;
  for (const ConsumerStep& step : program.consumers) {
    at::Tensor value = flight.values[step.slot];
    if (mode == Mode::kTrain) value = value.detach();
    if (step.activation) value = step.activation(value, {});
    if (value.is_cuda() && !is_boundary_name(step.name)) value = value.cpu();
    outputs.emplace(step.name, from_torch(value));
  }
  return outputs;
}

Stage::Stage(HarmonicGraph graph, const RuntimeOptions& options) {
  options.check();
  if (!graph.resolved()) {
    fail(
        ErrorCode::kFailedPrecondition,
        "the shape of producer '{}' of graph '{}' is not known: declare it, or bind its data first",
        graph.unresolved().front(), graph.name());
  }
  if (options.threads > 0) at::set_num_threads(options.threads);
  at::globalContext().setDeterministicAlgorithms(options.deterministic, /*warn_only=*/true);
  state_ = std::make_unique<State>(std::move(graph), options);
}
Stage::~Stage() = default;
Stage::Stage(Stage&&) noexcept = default;
Stage& Stage::operator=(Stage&&) noexcept = default;

const HarmonicGraph& Stage::graph() const { return state_->graph; }
PrecisionPolicy Stage::precision() const { return state_->precision; }

NamedTensors Stage::infer(const NamedTensors& inputs) {
  const c10::InferenceMode guard;
  return state_->leave(state_->run({}, state_->collect(inputs, false), Mode::kInfer), Mode::kInfer);
}

NamedTensors Stage::evaluate(const NamedTensors& inputs, TapReport& report) {
  const c10::InferenceMode guard;
  Flight flight = state_->run({}, state_->collect(inputs, true), Mode::kEvaluate);
  state_->run_taps(flight, Mode::kEvaluate, report);
  return state_->leave(flight, Mode::kEvaluate);
}

NamedTensors Stage::forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                            TapReport& report) {
  Flight flight = state_->run(micro_batch, state_->collect(inputs, true), Mode::kTrain);
  state_->run_taps(flight, Mode::kTrain, report);
  NamedTensors outputs = state_->leave(flight, Mode::kTrain);
  state_->flights.insert_or_assign(micro_batch.index, std::move(flight));
  return outputs;
}

namespace {

// The slices of a boundary's gradient message, one per use in the receiving part.
void add_boundary_roots(const ConsumerStep& step, const Flight& flight, const Tensor& message,
                        Tensors& roots, Tensors& root_gradients) {
  const at::Tensor all = to_torch(message);
  if (all.dim() == 0 || all.size(0) != step.gradient_slots) {
    fail(ErrorCode::kInvalidArgument, "boundary '{}' sent back {} gradients, {} were expected",
         step.name, all.dim() == 0 ? 0 : all.size(0), step.gradient_slots);
  }
  for (std::uint32_t i = 0; i < step.gradient_slots; ++i) {
    const at::Tensor& root = flight.aliases[step.slot][step.first_use + i];
    if (!root.requires_grad()) continue;
    roots.push_back(root);
    root_gradients.push_back(all[i].to(root.options()));
  }
}

}  // namespace

NamedTensors Stage::backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                             double loss_scale) {
  const auto found = state_->flights.find(micro_batch.index);
  if (found == state_->flights.end()) {
    fail(ErrorCode::kFailedPrecondition, "micro-batch {} has had no forward pass",
         micro_batch.index);
  }
  const Flight flight = std::move(found->second);
  state_->flights.erase(found);
  Tensors roots, root_gradients;
  for (const ConsumerStep& step : state_->program.consumers) {
    if (step.first_use == kNoUse) continue;
    const auto message = gradients.find(step.name);
    if (message == gradients.end()) {
      fail(ErrorCode::kFailedPrecondition, "no gradient came back over boundary '{}'", step.name);
    }
    add_boundary_roots(step, flight, message->second, roots, root_gradients);
  }
  for (std::size_t i = 0; i < flight.losses.size(); ++i) {
    if (!flight.losses[i].requires_grad()) continue;
    const double weight = state_->program.taps[i].weight * loss_scale;
    roots.push_back(flight.losses[i]);
    root_gradients.push_back(
        at::full_like(flight.losses[i], weight / static_cast<double>(flight.batch_samples)));
  }
  if (!roots.empty()) {
    guarded("the backward pass of graph", state_->graph.name(), [&] {
      torch::autograd::backward(roots, root_gradients);
      return 0;
    });
  }
  NamedTensors answer;
  for (std::size_t slot = 0; slot < state_->graph.producers().size(); ++slot) {
    const Tensors& leaves = flight.aliases[slot];
    if (leaves.empty()) continue;
    Tensors slices;
    for (const at::Tensor& leaf : leaves) {
      slices.push_back(leaf.grad().defined() ? leaf.grad().contiguous() : at::zeros_like(leaf));
    }
    const at::Tensor message = slices.size() == 1 ? slices[0].unsqueeze(0) : at::stack(slices);
    answer.emplace(state_->graph.producers()[slot].name, from_torch(message));
  }
  return answer;
}

std::string Stage::first_non_finite() const {
  for (const auto& [index, flight] : state_->flights) {
    for (std::size_t slot = 0; slot < flight.values.size(); ++slot) {
      if (all_finite(flight.values[slot])) continue;
      const std::size_t producers = state_->graph.producers().size();
      return slot < producers ? format("producer '{}'", state_->graph.producers()[slot].name)
                              : format("layer '{}'", state_->graph.layers()[slot - producers].name);
    }
  }
  return {};
}

}  // namespace harmonics
