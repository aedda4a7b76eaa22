// The backward pass of ExactBackend.
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>

#include "exact_backend.h"
#include "exact_threads.h"

namespace harmonics::inline in_runtime {

NamedTensors ExactBackend::backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                                    double loss_scale) {
  const auto found = flights_.find(micro_batch.index);
  if (found == flights_.end()) {
    fail(ErrorCode::kFailedPrecondition, "micro-batch {} has had no forward pass",
         micro_batch.index);
  }
  Flight flight = std::move(found->second);
  flights_.erase(found);
  flight.use_gradients.resize(program_.slot_count);
  for (std::size_t slot = 0; slot < program_.slot_count; ++slot) {
    flight.use_gradients[slot].resize(program_.use_counts[slot]);
  }
  add_boundary_gradients(flight, gradients);
  add_loss_gradients(flight, loss_scale);
  for (std::size_t i = program_.layers.size(); i-- > 0;) go_back(i, flight);
  add_up_passes();
  return gradients_of_inputs(flight);
}

// The slices of each boundary's gradient message, one per use in the receiving part.
void ExactBackend::add_boundary_gradients(Flight& flight, const NamedTensors& gradients) const {
  for (const ConsumerStep& step : program_.consumers) {
    if (step.first_use == kNoUse) continue;
    const auto message = gradients.find(step.name);
    if (message == gradients.end()) {
      fail(ErrorCode::kFailedPrecondition, "no gradient came back over boundary '{}'", step.name);
    }
    const Tensor all = convert_tensor(cpu_tensor(message->second), DType::kFloat32);
    const std::int64_t slots = all.shape().empty() ? 0 : all.shape()[0];
    if (slots != step.gradient_slots) {
      fail(ErrorCode::kInvalidArgument, "boundary '{}' sent back {} gradients, {} were expected",
           step.name, slots, step.gradient_slots);
    }
    for (std::uint32_t i = 0; i < step.gradient_slots; ++i) {
      flight.use_gradients[step.slot][step.first_use + i] =
          all.slice(i, i + 1).reshaped(flight.values[step.slot].shape());
    }
  }
}

void ExactBackend::add_loss_gradients(Flight& flight, double loss_scale) const {
  for (std::size_t i = 0; i < program_.taps.size(); ++i) {
    const TapStep& tap = program_.taps[i];
    if (tap.prediction.use == kNoUse) continue;
    const double scale =
        tap.weight * loss_scale / static_cast<double>(flight.micro_batch.batch_samples);
    flight.use_gradients[tap.prediction.slot][tap.prediction.use] =
        losses_[i]->backward(kernels_, flight.values[tap.prediction.slot],
                             flight.values[tap.target], static_cast<float>(scale));
  }
}

// The sum over a tensor's uses, from the first to the last; undefined where none sent any.
Tensor ExactBackend::gradient_of(std::size_t slot, const Flight& flight) const {
  Tensor sum;
  for (const Tensor& own : flight.use_gradients[slot]) {
    if (!own.defined()) continue;
    if (!sum.defined()) {
      sum = own;
      continue;
    }
    Tensor next = Tensor::empty(own.shape());
    const float *const so_far = numbers_of(sum), *const other = numbers_of(own);
    float* const to = own_numbers(next);
    in_exact_threads(next.size(), kExactGrain, [&](std::int64_t begin, std::int64_t end) {
      kernels_.add(end - begin, so_far + begin, other + begin, to + begin);
    });
    sum = std::move(next);
  }
  return sum;
}

void ExactBackend::go_back(std::size_t layer, Flight& flight) {
  const LayerStep& step = program_.layers[layer];
  LayerTrace& trace = flight.layers[layer];
  Tensor gradient = gradient_of(step.output, flight);
  if (!gradient.defined()) return;
  if (activations_[layer] != nullptr) {
    const std::size_t first = step.first_parameter + step.own_parameters;
    const Tensors slopes = parameter_values(first, step.activation_parameters);
    const Tensors slope_gradients = parameter_gradients(first, step.activation_parameters);
    const Tensors before = {trace.before_activation};
    const std::vector<bool> wanted = {true};
    const ExactCall call{kernels_, before, slopes, slope_gradients, wanted, true};
    gradient = activations_[layer]->backward(call, trace.activation_kept, gradient)[0];
  }
  const Tensors own = parameter_values(step.first_parameter, step.own_parameters);
  const Tensors own_gradients = parameter_gradients(step.first_parameter, step.own_parameters);
  std::vector<bool> wanted;
  for (const Use& input : step.inputs) wanted.push_back(input.use != kNoUse);
  ExactCall call{kernels_, trace.inputs, own, own_gradients, wanted, true};
  call.key = step.key;
  call.step = flight.micro_batch.step;
  call.first_sample = flight.micro_batch.first_sample;
  Tensors answers = layers_[layer]->backward(call, trace.kept, gradient);
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const Use& input = step.inputs[i];
    if (input.use != kNoUse) flight.use_gradients[input.slot][input.use] = std::move(answers[i]);
  }
  // What this layer kept is not needed any more; its output's gradients neither.
  trace = {};
  flight.use_gradients[step.output].clear();
}

NamedTensors ExactBackend::gradients_of_inputs(const Flight& flight) const {
  NamedTensors answer;
  for (std::size_t slot = 0; slot < graph_.producers().size(); ++slot) {
    const Tensors& uses = flight.use_gradients[slot];
    if (uses.empty()) continue;
    Shape row = flight.values[slot].shape();
    row.insert(row.begin(), 1);
    Tensors slices;
    for (const Tensor& own : uses) {
      slices.push_back(own.defined() ? own.reshaped(row) : Tensor::zeros(row));
    }
    answer.emplace(graph_.producers()[slot].name,
                   slices.size() == 1 ? slices[0] : concat_rows(slices));
  }
  return answer;
}

ExactBackend::Tensors ExactBackend::parameter_values(std::size_t first, std::size_t count) const {
  Tensors values;
  for (std::size_t i = first; i < first + count; ++i) values.push_back(parameters_[i].value);
  return values;
}

ExactBackend::Tensors ExactBackend::parameter_gradients(std::size_t first, std::size_t count) {
  Tensors gradients;
  for (std::size_t i = first; i < first + count; ++i) {
    Parameter& own = parameters_[i];
    own.reached = own.gradient.defined();
    if (own.holds && !own.pass.defined()) own.pass = Tensor::zeros(own.gradient.shape());
    gradients.push_back(own.holds ? own.pass : own.gradient);
  }
  return gradients;
}

void ExactBackend::add_up_passes() {
  for (Parameter& own : parameters_) {
    if (own.pass.defined()) {
      float *const sum = own_numbers(own.gradient), *const pass = own_numbers(own.pass);
      in_exact_threads(own.pass.size(), kExactGrain, [&](std::int64_t begin, std::int64_t end) {
        kernels_.add(end - begin, sum + begin, pass + begin, sum + begin);
      });
      own.pass = {};
    }
    own.holds = own.reached;
  }
}

}  // namespace harmonics::inline in_runtime
