#include "torch_backend.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/graph/sent_weights.h>
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
      copies_(torch_device(device_)),
      program_(graph_, options.seed),
      optimizer_(options.optimizer),
      seed_(options.seed),
      maps_weights_(options.maps_weights && device_.kind == DeviceKind::kCpu),
      channels_last_(device_.kind == DeviceKind::kCuda && precision_ != PrecisionPolicy::kFull) {
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
  choose_shorts();
  const auto carries_weight = [](const ConsumerStep& step) { return step.weight; };
  if (options.records && program_.builtin &&
      std::ranges::none_of(program_.consumers, carries_weight) &&
      std::ranges::find(program_.brings_weight, true) == program_.brings_weight.end()) {
    recorder_ = make_pass_recorder(device_);
  }
  records_ = records_inference_ = recorder_ != nullptr;
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
  forget_recorded();
  shorts_.outdate();
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
      if (!spec.away || !spec.trainable || holds_for_owner(graph_.layers()[i])) continue;
      fail(ErrorCode::kUnimplemented,
           "layer '{}' is tied to '{}', which another part owns: this part was cut by an older "
           "version, which did not let it learn; cut the graph again",
           graph_.layers()[i].name, spec.tied_to);
    }
  }
}

at::Tensor TorchBackend::enter(const ProducerNode& node, const Tensor& given) const {
  const at::Tensor value = copies_.here(to_torch(given));
  if (!needs_widening(node, given)) return value;
  return value.to(node.dtype == DType::kFloat64 ? at::kDouble : at::kFloat);
}

Collected TorchBackend::collect(const NamedTensors& inputs, bool with_targets) const {
  TakenInputs taken = take_inputs(graph_, program_, inputs, with_targets);
  for (const IdRange& range : program_.id_ranges) {
    const Tensor& given = taken.tensors[range.producer];
    if (!given.defined() || given.device().kind != DeviceKind::kCuda) continue;
    check_ids(range, graph_.producers()[range.producer], from_torch(to_torch(given).cpu()));
  }
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

namespace {

// Cut or not, a tensor lies in memory the same way: row after row, or, where its layer says so,
// channels last.
at::Tensor laid_out(const at::Tensor& value, ImageLayout layout) {
  const bool last = layout != ImageLayout::kPlain && value.is_cuda() && value.dim() == 4 &&
                    value.is_contiguous(at::MemoryFormat::ChannelsLast);
  return last ? value : value.contiguous();
}

// An input as the layer reads it, whichever way it came over a boundary.
at::Tensor for_layout(const at::Tensor& value, ImageLayout layout) {
  if (value.dim() != 4 || layout == ImageLayout::kKeep) return value;
  return layout == ImageLayout::kImages ? value.contiguous(at::MemoryFormat::ChannelsLast)
                                        : value.contiguous();
}

}  // namespace

at::Tensor TorchBackend::compute(const LayerStep& step, LayerCall call,
                                 std::span<const at::Tensor> parameters) const {
  call.parameters = parameters.first(parameters.size() - step.activation_parameters);
  call.compute = precision_ == PrecisionPolicy::kBf16   ? at::kBFloat16
                 : precision_ == PrecisionPolicy::kFp16 ? at::kHalf
                 : call.parameters.empty()              ? at::kFloat
                                                        : call.parameters[0].scalar_type();
  call.key = step.key;
  return guarded("layer", step.name, [&] {
    if (device_.kind == DeviceKind::kCuda && step.fused) {
      if (const at::Tensor value = step.fused(call); value.defined()) return value;
    }
    at::Tensor value = step.forward(call);
    if (step.activation_in_place && call.kept != nullptr && is_spare(value)) {
      value = step.activation_in_place(value, {});
    } else if (step.activation) {
      value = step.activation(value, parameters.last(step.activation_parameters));
    }
    return laid_out(value, step.layout);
  });
}

namespace {

/// What a layer computes with: in training a part of the graph that gradients walk.
at::Tensor taken(const Flight& flight, const Use& input, bool training) {
  const at::Tensor& value = flight.values[input.slot];
  if (!training) return value;
  return input.use == kNoUse ? value.detach() : flight.aliases[input.slot][input.use];
}

/// A gradient that crosses a boundary is contiguous; so it is everywhere, in the way of its tensor.
void keep_gradient_contiguous(const at::Tensor& output) {
  const at::MemoryFormat way =
      output.is_contiguous() ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast;
  output.register_hook([way](const at::Tensor& gradient) { return gradient.contiguous(way); });
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

Flight TorchBackend::run(const MicroBatch& micro_batch, Collected collected, Mode mode,
                         std::vector<ChanceDraw>* draws) {
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
    for (const Use& input : step.inputs) {
      const at::Tensor value = taken(flight, input, training);
      inputs.push_back(channels_last_ ? for_layout(value, step.layout) : value);
    }
    const Tensors own = own_parameters(step, parameters, inputs);
    const Tensors shorts = shorts_of(step, own);
    LayerCall call;
    call.inputs = inputs;
    call.shorts = shorts;
    call.training = training && !step.frozen;
    call.step = micro_batch.step;
    call.first_sample = micro_batch.first_sample;
    call.draws = draws;
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

void TorchBackend::run_taps(Flight& flight, Mode mode) const {
  for (const TapStep& tap : program_.taps) {
    const at::Tensor& prediction = mode == Mode::kTrain && tap.prediction.use != kNoUse
                                       ? flight.aliases[tap.prediction.slot][tap.prediction.use]
                                       : flight.values[tap.prediction.slot];
    const at::Tensor target = flight.values[tap.target].detach();
    TapValue value;
    value.sum = guarded("the loss of", tap.prediction_name,
                        [&] { return tap.loss(prediction, target).sum(); });
    if (tap.judges) {
      const at::Tensor best = prediction.detach().argmax(-1);
      const at::Tensor right = at::isFloatingType(target.scalar_type())
                                   ? target.argmax(-1)
                                   : target.to(at::kLong).reshape(best.sizes());
      value.correct = best.eq(right).sum();
      value.judged = best.numel();
    }
    flight.taps.push_back(std::move(value));
  }
}

void TorchBackend::read_taps(const Flight& flight, TapReport& report) const {
  for (std::size_t i = 0; i < flight.taps.size(); ++i) {
    const TapValue& value = flight.taps[i];
    report.loss_sum += program_.taps[i].weight * value.sum.item<double>();
    report.judged += value.judged;
    if (value.correct.defined()) report.correct += value.correct.item<std::int64_t>();
  }
}

// The other end keeps what it has got; no row says that nothing has changed. A copy, since the
// update comes while it may be under way.
at::Tensor TorchBackend::leaving_weight(const ConsumerStep& step, const at::Tensor& value) {
  return sent_.insert(step.name).second ? value.clone() : value.slice(0, 0, 0);
}

Tensors TorchBackend::leaving(const Flight& flight, Mode mode) {
  Tensors all;
  for (const ConsumerStep& step : program_.consumers) {
    at::Tensor value = flight.values[step.slot];
    if (mode == Mode::kTrain) value = value.detach();
    if (step.weight) value = leaving_weight(step, value);
    if (step.activation) value = step.activation(value, {});
    all.push_back(value.contiguous());
  }
  return all;
}

NamedTensors TorchBackend::handed_on(const Tensors& leaving, bool only_learns) const {
  NamedTensors outputs;
  for (std::size_t i = 0; i < leaving.size(); ++i) {
    const std::string& name = program_.consumers[i].name;
    const bool stays = only_learns || is_boundary_name(name);
    outputs.emplace(name, from_torch(stays ? leaving[i] : GpuCopies::in_main_memory(leaving[i])));
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
  shorts_.refresh(parameters_);
  if (const std::optional<Tensors> left = launch_inference(collected)) return handed_on(*left);
  return handed_on(inferred(std::move(collected)));
}

Tensors TorchBackend::inferred(Collected collected) {
  return leaving(run({}, std::move(collected), Mode::kInfer), Mode::kInfer);
}

NamedTensors TorchBackend::evaluate(const NamedTensors& inputs, TapReport& report) {
  draw();
  const PassMemory memory;
  const c10::InferenceMode guard;
  Collected collected = collect(inputs, true);
  hold_weights(inputs, collected);
  shorts_.refresh(parameters_);
  Flight flight = run({}, std::move(collected), Mode::kEvaluate);
  run_taps(flight, Mode::kEvaluate);
  NamedTensors outputs = handed_on(leaving(flight, Mode::kEvaluate));
  read_taps(flight, report);
  return outputs;
}

NamedTensors TorchBackend::forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                   TapReport& report) {
  refuse_ties_away();
  const PassMemory memory;
  draw();
  take_over();
  Collected collected = collect(inputs, true);
  hold_weights(inputs, collected);
  shorts_.refresh(parameters_);
  if (RecordedFlight* const recorded = recorded_for(micro_batch, collected)) {
    return launch_forward(*recorded, micro_batch, collected, report);
  }
  Flight flight;
  const auto pass = [&] {
    flight = run(micro_batch, std::move(collected), Mode::kTrain);
    run_taps(flight, Mode::kTrain);
  };
  const bool rehearsed = std::exchange(rehearsing_, false);
  rehearsed ? recorder_->rehearse(pass) : pass();
  flight.rehearsed = rehearsed;
  NamedTensors outputs = handed_on(leaving(flight, Mode::kTrain), micro_batch.only_learns);
  read_taps(flight, report);  // last: a GPU has everything to do by then
  flights_.insert_or_assign(micro_batch.index, std::move(flight));
  return outputs;
}

void TorchBackend::forget(const MicroBatch& micro_batch) {
  flights_.erase(micro_batch.index);
  launched_.erase(micro_batch.index);
  untold_.erase(micro_batch.index);
}

void TorchBackend::forward_again(const MicroBatch& micro_batch, const NamedTensors& inputs) {
  const Tensors before = statistics();
  TapReport told;
  static_cast<void>(forward(micro_batch, inputs, told));
  put_back(before);
}

void add_boundary_roots(const ConsumerStep& step, const Flight& flight, const at::Tensor& message,
                        Tensors& roots, Tensors& root_gradients) {
  for (std::uint32_t i = 0; i < step.gradient_slots; ++i) {
    const at::Tensor& root = flight.aliases[step.slot][step.first_use + i];
    if (!root.requires_grad()) continue;
    roots.push_back(root);
    root_gradients.push_back(message[i].to(root.options()));
  }
}

const Tensor& gradient_message(const ConsumerStep& step, const NamedTensors& gradients) {
  const auto found = gradients.find(step.name);
  if (found == gradients.end()) {
    fail(ErrorCode::kFailedPrecondition, "no gradient came back over boundary '{}'", step.name);
  }
  const Shape& shape = found->second.shape();
  if (shape.empty() || shape[0] != step.gradient_slots) {
    fail(ErrorCode::kInvalidArgument, "boundary '{}' sent back {} gradients, {} were expected",
         step.name, shape.empty() ? 0 : shape[0], step.gradient_slots);
  }
  return found->second;
}

double TorchBackend::tap_gradient(std::size_t tap, const Flight& flight, double loss_scale) const {
  return program_.taps[tap].weight * loss_scale / static_cast<double>(flight.batch_samples);
}

Tensors TorchBackend::walk_back(const Flight& flight, const Tensors& roots,
                                const Tensors& root_gradients) {
  if (!roots.empty()) {
    guarded("the backward pass of graph", graph_.name(), [&] {
      torch::autograd::backward(roots, root_gradients);
      return 0;
    });
  }
  Tensors answers(graph_.producers().size());
  for (std::size_t slot = 0; slot < answers.size(); ++slot) {
    Tensors slices;
    for (const at::Tensor& leaf : flight.aliases[slot]) {
      slices.push_back(leaf.grad().defined() ? leaf.grad().contiguous() : at::zeros_like(leaf));
    }
    if (slices.empty()) continue;
    answers[slot] = slices.size() == 1 ? slices[0].unsqueeze(0) : at::stack(slices);
  }
  return answers;
}

NamedTensors TorchBackend::backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                                    double loss_scale) {
  const PassMemory memory;
  if (const auto launched = launched_.find(micro_batch.index); launched != launched_.end()) {
    RecordedFlight& recorded = *launched->second;
    launched_.erase(launched);
    lay_down_gradients(recorded, gradients, loss_scale);
    if (has_backward(recorded)) return launch_backward(recorded);
  }
  const auto found = flights_.find(micro_batch.index);
  if (found == flights_.end()) {
    fail(ErrorCode::kFailedPrecondition, "micro-batch {} has had no forward pass",
         micro_batch.index);
  }
  const Flight flight = std::move(found->second);
  flights_.erase(found);
  Tensors roots, root_gradients;
  for (const ConsumerStep& step : program_.consumers) {
    if (step.first_use == kNoUse) continue;
    add_boundary_roots(step, flight, to_torch(gradient_message(step, gradients)), roots,
                       root_gradients);
  }
  for (std::size_t i = 0; i < flight.taps.size(); ++i) {
    const at::Tensor& sum = flight.taps[i].sum;
    if (!sum.requires_grad()) continue;
    roots.push_back(sum);
    root_gradients.push_back(at::full_like(sum, tap_gradient(i, flight, loss_scale)));
  }
  Tensors answers;
  begin_listening(micro_batch);
  const auto pass = [&] { answers = walk_back(flight, roots, root_gradients); };
  flight.rehearsed ? recorder_->rehearse(pass) : pass();
  return named_answers(answers);
}

NamedTensors TorchBackend::named_answers(const Tensors& answers) const {
  NamedTensors named;
  for (std::size_t slot = 0; slot < answers.size(); ++slot) {
    if (!answers[slot].defined()) continue;
    named.emplace(graph_.producers()[slot].name, from_torch(answers[slot]));
  }
  return named;
}

std::vector<std::pair<std::string, Tensor>> TorchBackend::layer_values(std::uint32_t micro_batch) {
  for (const auto& [index, recorded] : std::exchange(launched_, {})) compute_again(*recorded);
  const auto flight = flights_.find(micro_batch);
  if (flight == flights_.end()) {
    fail(ErrorCode::kFailedPrecondition, "micro-batch {} is not in flight", micro_batch);
  }
  std::vector<std::pair<std::string, Tensor>> values;
  for (const LayerStep& step : program_.layers) {
    values.emplace_back(step.name,
                        from_torch(flight->second.values[step.output].detach().contiguous()));
  }
  return values;
}

std::string TorchBackend::first_non_finite() {
  for (const auto& [index, recorded] : std::exchange(launched_, {})) compute_again(*recorded);
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
