// The backward pass of ExactBackend.
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>

#include "exact_backend.h"

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
void ExactBackend::add_boundary_gradients(Flight& flight, const NamedTensors& gradients) {
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
    place_->at(format("boundary '{}'", step.name));
    for (std::uint32_t i = 0; i < step.gradient_slots; ++i) {
      flight.use_gradients[step.slot][step.first_use + i] =
          place_->take(all.slice(i, i + 1).reshaped(flight.values[step.slot].shape));
    }
  }
}

void ExactBackend::add_loss_gradients(Flight& flight, double loss_scale) const {
  for (std::size_t i = 0; i < program_.taps.size(); ++i) {
    const TapStep& tap = program_.taps[i];
    if (tap.prediction.use == kNoUse) continue;
    const double scale =
        tap.weight * loss_scale / static_cast<double>(flight.micro_batch.batch_samples);
    place_->at(format("the loss of '{}'", tap.prediction_name));
    flight.use_gradients[tap.prediction.slot][tap.prediction.use] = losses_[i]->backward(
        flight.values[tap.prediction.slot], flight.values[tap.target], static_cast<float>(scale));
  }
}

// The sum over a tensor's uses, from the first to the last; undefined where none sent any.
ExactArray ExactBackend::gradient_of(std::size_t slot, const Flight& flight) const {
  ExactArray sum;
  for (const ExactArray& own : flight.use_gradients[slot]) {
    if (own.defined()) sum = sum.defined() ? place_->sum(sum, own) : own;
  }
  return sum;
}

void ExactBackend::go_back(std::size_t layer, Flight& flight) {
  const LayerStep& step = program_.layers[layer];
  LayerTrace& trace = flight.layers[layer];
  place_->at(format("layer '{}'", step.name));
  ExactArray gradient = gradient_of(step.output, flight);
  if (!gradient.defined()) return;
  if (activations_[layer] != nullptr) {
    const std::size_t first = step.first_parameter + step.own_parameters;
    const Arrays slopes = parameter_values(first, step.activation_parameters);
    const Arrays slope_gradients = parameter_gradients(first, step.activation_parameters);
    const Arrays before = {trace.before_activation};
    const std::vector<bool> wanted = {true};
    const PlacedCall call{before, slopes, slope_gradients, wanted, true};
    gradient = activations_[layer]->backward(call, trace.activation_kept, gradient)[0];
  }
  const Arrays own = parameter_values(step.first_parameter, step.own_parameters);
  const Arrays own_gradients = parameter_gradients(step.first_parameter, step.own_parameters);
  std::vector<bool> wanted;
  for (const Use& input : step.inputs) wanted.push_back(input.use != kNoUse);
  PlacedCall call{trace.inputs, own, own_gradients, wanted, true};
  call.key = step.key;
  call.step = flight.micro_batch.step;
  call.first_sample = flight.micro_batch.first_sample;
  Arrays answers = layers_[layer]->backward(call, trace.kept, gradient);
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
    const Arrays& uses = flight.use_gradients[slot];
    if (uses.empty()) continue;
    Shape row = flight.values[slot].shape;
    row.insert(row.begin(), 1);
    std::vector<Tensor> slices;
    for (const ExactArray& own : uses) {
      slices.push_back(own.defined() ? place_->give(own).reshaped(row) : Tensor::zeros(row));
    }
    answer.emplace(graph_.producers()[slot].name,
                   slices.size() == 1 ? slices[0] : concat_rows(slices));
  }
  return answer;
}

ExactBackend::Arrays ExactBackend::parameter_values(std::size_t first, std::size_t count) const {
  Arrays values;
  for (std::size_t i = first; i < first + count; ++i) values.push_back(parameters_[i].value);
  return values;
}

ExactBackend::Arrays ExactBackend::parameter_gradients(std::size_t first, std::size_t count) {
  Arrays gradients;
  for (std::size_t i = first; i < first + count; ++i) {
    Parameter& own = parameters_[i];
    own.reached = own.gradient.defined();
    if (own.holds && !own.pass.defined()) own.pass = place_->zeros(own.gradient.shape);
    gradients.push_back(own.holds ? own.pass : own.gradient);
  }
  return gradients;
}

void ExactBackend::add_up_passes() {
  for (Parameter& own : parameters_) {
    if (own.pass.defined()) place_->add_to(own.gradient, own.pass);
    own.pass = {};
    own.holds = own.reached;
  }
}

}  // namespace harmonics::inline in_runtime
