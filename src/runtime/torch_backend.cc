#include "torch_backend.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/tensor/torch.h>

#include "backends.h"
#include "decay.h"
#include "fan_out.h"
#include "inputs.h"
#include "pass_memory.h"
#include "start_weights.h"
#include "torch_errors.h"

namespace harmonics::inline in_runtime {
namespace {

at::Device torch_device(Device device) {
  return device.kind == DeviceKind::kCuda
             ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index))
             : at::Device(at::kCPU);
}

// A copy between main memory and a GPU goes through page-locked memory: upwards it overlaps with
// what the CPU does next, downwards it runs at the full speed of the bus.
at::Tensor moved(const at::Tensor& value, at::Device device) {
  if (value.device() == device) return value;
  if (value.is_cpu()) {
    return (value.is_pinned() ? value : value.pin_memory()).to(device, /*non_blocking=*/true);
  }
  if (!device.is_cpu()) return value.to(device, /*non_blocking=*/true);
  at::Tensor staging =
      at::empty(value.sizes(), at::TensorOptions().dtype(value.scalar_type()).pinned_memory(true));
  return staging.copy_(value);
}

bool all_finite(const at::Tensor& tensor) {
  if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type())) return true;
  return at::isfinite(tensor).all().item<bool>();
}

// Nobody else holds it or its memory.
bool is_spare(const at::Tensor& value) {
  return value.use_count() == 1 && value.has_storage() && value.storage().use_count() == 1;
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

}  // namespace

TorchBackend::TorchBackend(HarmonicGraph graph, const RuntimeOptions& options, Device device)
    : graph_(std::move(graph)),
      device_(device),
      precision_(decide(options.precision, device_)),
      program_(graph_, options.seed),
      optimizer_(options.optimizer),
      seed_(options.seed),
      maps_weights_(options.maps_weights && device_.kind == DeviceKind::kCpu) {
  for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
    const LayerShape& shape = graph_.layer_shape(i);
    for (std::size_t k = 0; k < shape.parameters.size(); ++k) {
      const ParameterSpec& spec = shape.parameters[k];
      names_.push_back(parameter_name(graph_.layers()[i], spec));
      origins_.emplace_back(i, k);
      parameters_.emplace_back();
      biases_and_norms_.push_back(is_bias_or_norm(graph_.layers()[i], spec));
      if (!spec.tied_to.empty() && !spec.away) continue;
      undrawn_.insert(parameters_.size() - 1);
      parameters_.back() = at::empty(
          spec.shape,
          at::TensorOptions(shape.output.dtype == DType::kFloat64 ? at::kDouble : at::kFloat)
              .device(torch_device(device_)));
      parameters_.back().set_requires_grad(spec.trainable);
    }
  }
  share_parameters();
}

void TorchBackend::draw() const {
  const at::NoGradGuard no_grad;
  for (const std::size_t place : std::exchange(undrawn_, {})) {
    if (!owns(place)) continue;
    const LayerShape& shape = graph_.layer_shape(origins_[place].first);
    parameters_[place].copy_(to_torch(start_weights(shape.parameters[origins_[place].second],
                                                    shape.output.dtype, seed_, names_[place])));
  }
}

void TorchBackend::set_parameter(std::size_t place, at::Tensor value) {
  value.set_requires_grad(parameters_[place].requires_grad());
  parameters_[place] = std::move(value);
  if (const auto shared = shared_.find(place); shared != shared_.end()) {
    for (const std::size_t use : shared->second) parameters_[use] = parameters_[place];
  }
}

void TorchBackend::take_over() {
  for (const std::size_t place : std::exchange(mapped_, {})) {
    set_parameter(place, parameters_[place].detach().clone());
  }
}

// Gives every use of a tied parameter the one tensor.
void TorchBackend::share_parameters() {
  std::map<std::string, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < names_.size(); ++i) places[names_[i]].push_back(i);
  for (auto& [name, uses] : places) {
    if (uses.size() == 1) continue;
    const std::size_t owner =
        *std::ranges::find_if(uses, [&](std::size_t use) { return parameters_[use].defined(); });
    for (const std::size_t use : uses) {
      parameters_[use] = parameters_[owner];
      if (use != owner) names_[use].clear();
    }
    shared_.emplace(owner, std::move(uses));
  }
}

Tensors TorchBackend::parameters_for(Mode mode) const {
  if (mode != Mode::kTrain || shared_.empty()) return {};
  Tensors all = parameters_;
  for (const auto& [owner, uses] : shared_) {
    if (!parameters_[owner].requires_grad()) continue;
    const Tensors aliases = fan_out(parameters_[owner], uses.size());
    for (std::size_t i = 0; i < uses.size(); ++i) all[uses[i]] = aliases[i];
  }
  return all;
}

// A gradient would have to travel to the owner, in another part.
void TorchBackend::refuse_ties_away() const {
  for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
    for (const ParameterSpec& spec : graph_.layer_shape(i).parameters) {
      if (!spec.away || !spec.trainable) continue;
      fail(ErrorCode::kUnimplemented,
           "layer '{}' is tied to '{}', which a later part owns: such a cut can compute but not "
           "learn; cut the graph so that both layers lie in one part, tie the later layer to the "
           "earlier one, or freeze the owner with trainable=false",
           graph_.layers()[i].name, spec.tied_to);
    }
  }
}

at::Tensor TorchBackend::enter(const ProducerNode& node, const Tensor& given) const {
  at::Tensor value = to_torch(given);
  if (device_.kind != DeviceKind::kCpu || given.device().kind != DeviceKind::kCpu) {
    value = moved(value, torch_device(device_));
  }
  if (!needs_widening(node, given)) return value;
  return value.to(node.dtype == DType::kFloat64 ? at::kDouble : at::kFloat);
}

Collected TorchBackend::collect(const NamedTensors& inputs, bool with_targets) const {
  TakenInputs taken = take_inputs(graph_, program_, inputs, with_targets);
  Tensors values(program_.slot_count);
  for (std::size_t i = 0; i < taken.tensors.size(); ++i) {
    if (taken.tensors[i].defined()) values[i] = enter(graph_.producers()[i], taken.tensors[i]);
  }
  return {std::move(values), std::move(taken.axes)};
}

void TorchBackend::check_output(const LayerStep& step, const at::Tensor& value,
                                const AxisValues& axes) const {
  Shape worked_out;
  if (!step.output_extents.empty()) {
    worked_out = shape_at(step.output_shape, step.output_extents, axes);
  }
  const Shape& expected = step.output_extents.empty() ? step.output_shape : worked_out;
  if (value.dim() == 0 || value.sizes().slice(1) != c10::IntArrayRef(expected)) {
    fail(ErrorCode::kInternal, "layer '{}' computed {} per sample, the graph expects {}", step.name,
         c10::str(value.sizes()), shape_text(expected));
  }
}

at::Tensor TorchBackend::compute(const LayerStep& step, LayerCall call,
                                 std::span<const at::Tensor> parameters) const {
  call.parameters = parameters.first(parameters.size() - step.activation_parameters);
  call.compute = precision_ == PrecisionPolicy::kBf16   ? at::kBFloat16
                 : precision_ == PrecisionPolicy::kFp16 ? at::kHalf
                 : call.parameters.empty()              ? at::kFloat
                                                        : call.parameters[0].scalar_type();
  call.key = step.key;
  return guarded("layer", step.name, [&] {
    at::Tensor value = step.forward(call);
    if (step.activation_in_place && call.kept != nullptr && is_spare(value)) {
      value = step.activation_in_place(value, {});
    } else if (step.activation) {
      value = step.activation(value, parameters.last(step.activation_parameters));
    }
    return value.contiguous();
  });
}

namespace {

/// What a layer computes with: in training a part of the graph that gradients walk.
at::Tensor taken(const Flight& flight, const Use& input, bool training) {
  const at::Tensor& value = flight.values[input.slot];
  if (!training) return value;
  return input.use == kNoUse ? value.detach() : flight.aliases[input.slot][input.use];
}

/// A gradient that crosses a boundary is contiguous; so it is everywhere.
void keep_gradient_contiguous(const at::Tensor& output) {
  output.register_hook([](const at::Tensor& gradient) { return gradient.contiguous(); });
}

}  // namespace

// Where gradients end: one for each use of what entered.
void TorchBackend::add_leaves(Flight& flight) const {
  flight.aliases.resize(program_.slot_count);
  for (std::size_t slot = 0; slot < graph_.producers().size(); ++slot) {
    for (std::uint32_t use = 0; use < program_.use_counts[slot]; ++use) {
      flight.aliases[slot].push_back(flight.values[slot].detach().requires_grad_(true));
    }
  }
}

void TorchBackend::hold_weights(const NamedTensors& inputs, Collected& collected) {
  // What comes with a batch that is only computed may serve a later one that learns.
  const c10::InferenceMode learnable(false);
  for (std::size_t slot = 0; slot < program_.brings_weight.size(); ++slot) {
    if (!program_.brings_weight[slot] || !collected.values[slot].defined()) continue;
    const ProducerNode& node = graph_.producers()[slot];
    at::Tensor& held = held_[slot];
    if (collected.values[slot].size(0) == 1) held = enter(node, inputs.find(node.name)->second);
    if (!held.defined()) {
      fail(ErrorCode::kDataLoss,
           "boundary '{}' says that its parameter has not changed, but none has come", node.name);
    }
    collected.values[slot] = held;
  }
}

Tensors TorchBackend::own_parameters(const LayerStep& step, std::span<const at::Tensor> all,
                                     Tensors& inputs) {
  const auto own =
      all.subspan(step.first_parameter, step.own_parameters + step.activation_parameters);
  Tensors parameters(own.begin(), own.end());
  if (step.given_weight >= 0) {
    parameters.insert(parameters.begin() + step.given_weight, inputs.back().squeeze(0));
    inputs.pop_back();
  }
  return parameters;
}

Flight TorchBackend::run(const MicroBatch& micro_batch, Collected collected, Mode mode) {
  Flight flight;
  flight.values = std::move(collected.values);
  const Tensors aliased = parameters_for(mode);
  const std::span<const at::Tensor> parameters(aliased.empty() ? parameters_ : aliased);
  flight.batch_samples = micro_batch.batch_samples;
  const bool training = mode == Mode::kTrain;
  if (training) {
    forget_kept();  // running statistics change on the way
    add_leaves(flight);
  }
  if (!training && device_.kind == DeviceKind::kCpu) {
    infer_layers(flight.values, collected.axes);
    return flight;
  }
  Tensors inputs;
  for (const LayerStep& step : program_.layers) {
    inputs.clear();
    for (const Use& input : step.inputs) inputs.push_back(taken(flight, input, training));
    const Tensors own = own_parameters(step, parameters, inputs);
    LayerCall call;
    call.inputs = inputs;
    call.training = training && !step.frozen;
    call.step = micro_batch.step;
    call.first_sample = micro_batch.first_sample;
    at::Tensor output = compute(step, call, own);
    check_output(step, output, collected.axes);
    if (!training) {
      for (const std::uint32_t slot : step.last_reads) flight.values[slot].reset();
    } else if (const std::uint32_t uses = program_.use_counts[step.output]; uses > 0) {
      if (output.requires_grad()) keep_gradient_contiguous(output);
      flight.aliases[step.output] =
          uses > 1 && output.requires_grad() ? fan_out(output, uses) : Tensors(uses, output);
    }
    flight.values[step.output] = std::move(output);
  }
  return flight;
}

void TorchBackend::run_taps(Flight& flight, Mode mode, TapReport& report) const {
  for (const TapStep& tap : program_.taps) {
    const at::Tensor& prediction = mode == Mode::kTrain && tap.prediction.use != kNoUse
                                       ? flight.aliases[tap.prediction.slot][tap.prediction.use]
                                       : flight.values[tap.prediction.slot];
    const at::Tensor target = flight.values[tap.target].detach();
    at::Tensor sum = guarded("the loss of", tap.prediction_name,
                             [&] { return tap.loss(prediction, target).sum(); });
    at::Tensor correct;
    if (tap.judges) {
      const at::Tensor best = prediction.detach().argmax(-1);
      const at::Tensor right = at::isFloatingType(target.scalar_type())
                                   ? target.argmax(-1)
                                   : target.to(at::kLong).reshape(best.sizes());
      correct = best.eq(right).sum();
      report.judged += best.numel();
    }
    // Read last: a GPU has everything to do by then.
    report.loss_sum += tap.weight * sum.item<double>();
    if (correct.defined()) report.correct += correct.item<std::int64_t>();
    flight.losses.push_back(std::move(sum));
  }
}

// The other end keeps what it has got; no row says that nothing has changed. A copy, since the
// update comes while it may be under way.
at::Tensor TorchBackend::leaving_weight(const ConsumerStep& step, const at::Tensor& value) {
  return sent_.insert(step.name).second ? value.clone() : value.slice(0, 0, 0);
}

NamedTensors TorchBackend::leave(const Flight& flight, Mode mode) {
  NamedTensors outputs;
  for (const ConsumerStep& step : program_.consumers) {
    at::Tensor value = flight.values[step.slot];
    if (mode == Mode::kTrain) value = value.detach();
    if (step.weight) value = leaving_weight(step, value);
    if (step.activation) value = step.activation(value, {});
    if (value.is_cuda() && !is_boundary_name(step.name)) value = moved(value, at::kCPU);
    outputs.emplace(step.name, from_torch(value));
  }
  return outputs;
}

std::unique_ptr<StageBackend> make_torch_backend(HarmonicGraph graph, const RuntimeOptions& options,
                                                 Device device) {
  return std::make_unique<TorchBackend>(std::move(graph), options, device);
}

std::string TorchBackend::place() const {
  return device_.kind == DeviceKind::kCuda ? format("cuda:{}", device_.index) : "cpu";
}

NamedTensors TorchBackend::infer(const NamedTensors& inputs) {
  draw();
  const PassMemory memory;
  const c10::InferenceMode guard;
  Collected collected = collect(inputs, false);
  hold_weights(inputs, collected);
  return leave(run({}, std::move(collected), Mode::kInfer), Mode::kInfer);
}

NamedTensors TorchBackend::evaluate(const NamedTensors& inputs, TapReport& report) {
  draw();
  const PassMemory memory;
  const c10::InferenceMode guard;
  Collected collected = collect(inputs, true);
  hold_weights(inputs, collected);
  Flight flight = run({}, std::move(collected), Mode::kEvaluate);
  run_taps(flight, Mode::kEvaluate, report);
  return leave(flight, Mode::kEvaluate);
}

NamedTensors TorchBackend::forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                   TapReport& report) {
  refuse_ties_away();
  const PassMemory memory;
  draw();
  take_over();
  Collected collected = collect(inputs, true);
  hold_weights(inputs, collected);
  Flight flight = run(micro_batch, std::move(collected), Mode::kTrain);
  run_taps(flight, Mode::kTrain, report);
  NamedTensors outputs = leave(flight, Mode::kTrain);
  flights_.insert_or_assign(micro_batch.index, std::move(flight));
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

NamedTensors TorchBackend::backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                                    double loss_scale) {
  const auto found = flights_.find(micro_batch.index);
  if (found == flights_.end()) {
    fail(ErrorCode::kFailedPrecondition, "micro-batch {} has had no forward pass",
         micro_batch.index);
  }
  const PassMemory memory;
  const Flight flight = std::move(found->second);
  flights_.erase(found);
  Tensors roots, root_gradients;
  for (const ConsumerStep& step : program_.consumers) {
    if (step.first_use == kNoUse) continue;
    const auto message = gradients.find(step.name);
    if (message == gradients.end()) {
      fail(ErrorCode::kFailedPrecondition, "no gradient came back over boundary '{}'", step.name);
    }
    add_boundary_roots(step, flight, message->second, roots, root_gradients);
  }
  for (std::size_t i = 0; i < flight.losses.size(); ++i) {
    if (!flight.losses[i].requires_grad()) continue;
    const double weight = program_.taps[i].weight * loss_scale;
    roots.push_back(flight.losses[i]);
    root_gradients.push_back(
        at::full_like(flight.losses[i], weight / static_cast<double>(flight.batch_samples)));
  }
  if (!roots.empty()) {
    guarded("the backward pass of graph", graph_.name(), [&] {
      torch::autograd::backward(roots, root_gradients);
      return 0;
    });
  }
  NamedTensors answer;
  for (std::size_t slot = 0; slot < graph_.producers().size(); ++slot) {
    const Tensors& leaves = flight.aliases[slot];
    if (leaves.empty()) continue;
    Tensors slices;
    for (const at::Tensor& leaf : leaves) {
      slices.push_back(leaf.grad().defined() ? leaf.grad().contiguous() : at::zeros_like(leaf));
    }
    const at::Tensor message = slices.size() == 1 ? slices[0].unsqueeze(0) : at::stack(slices);
    answer.emplace(graph_.producers()[slot].name, from_torch(message));
  }
  return answer;
}

std::string TorchBackend::first_non_finite() const {
  for (const auto& [index, flight] : flights_) {
    for (std::size_t slot = 0; slot < flight.values.size(); ++slot) {
      if (all_finite(flight.values[slot])) continue;
      const std::size_t producers = graph_.producers().size();
      return slot < producers ? format("producer '{}'", graph_.producers()[slot].name)
                              : format("layer '{}'", graph_.layers()[slot - producers].name);
    }
  }
  return {};
}

}  // namespace harmonics::inline in_runtime
