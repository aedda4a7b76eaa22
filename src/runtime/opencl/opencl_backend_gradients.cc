// The backward pass of OpenClBackend.
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>

#include "opencl_backend.h"

namespace harmonics::inline in_runtime {

NamedTensors OpenClBackend::backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
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
  return gradients_of_inputs(flight);
}

// The slices of each boundary's gradient message, one per use in the receiving part.
void OpenClBackend::add_boundary_gradients(Flight& flight, const NamedTensors& gradients) {
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
    const DeviceTensor& value = flight.values[step.slot];
    queue_->at(format("boundary '{}'", step.name));
    for (std::uint32_t i = 0; i < step.gradient_slots; ++i) {
      flight.use_gradients[step.slot][step.first_use + i] =
          queue_->upload(all.slice(i, i + 1).reshaped(value.shape));
    }
  }
}

void OpenClBackend::add_loss_gradients(Flight& flight, double loss_scale) {
  for (std::size_t i = 0; i < program_.taps.size(); ++i) {
    const TapStep& tap = program_.taps[i];
    if (tap.prediction.use == kNoUse) continue;
    queue_->at(format("the loss of '{}'", tap.prediction_name));
    const double scale =
        tap.weight * loss_scale / static_cast<double>(flight.micro_batch.batch_samples);
    flight.use_gradients[tap.prediction.slot][tap.prediction.use] =
        losses_[i]->backward(*queue_, flight.values[tap.prediction.slot], flight.values[tap.target],
                             flight.losses[i], static_cast<float>(scale));
  }
}

// The sum over a tensor's uses, from the first to the last; undefined where none sent any.
DeviceTensor OpenClBackend::gradient_of(std::size_t slot, const Flight& flight) {
  DeviceTensor sum;
  for (const DeviceTensor& own : flight.use_gradients[slot]) {
    if (!own.defined()) continue;
    if (!sum.defined()) {
      sum = own;
      continue;
    }
    DeviceTensor next = queue_->empty(own.shape);
    queue_->run("add", own.size(), {sum, own, next});
    sum = std::move(next);
  }
  return sum;
}

void OpenClBackend::go_back(std::size_t layer, Flight& flight) {
  const LayerStep& step = program_.layers[layer];
  LayerTrace& trace = flight.layers[layer];
  queue_->at(format("layer '{}'", step.name));
  DeviceTensor gradient = gradient_of(step.output, flight);
  if (!gradient.defined()) return;
  if (activations_[layer] != nullptr) {
    const std::size_t first = step.first_parameter + step.own_parameters;
    const DeviceTensors slopes = parameter_values(first, step.activation_parameters);
    const DeviceTensors slope_gradients = parameter_gradients(first, step.activation_parameters);
    const DeviceTensors before = {trace.before_activation};
    const std::vector<bool> wanted = {true};
    const DeviceCall call{*queue_, before, slopes, slope_gradients, wanted, true};
    gradient = activations_[layer]->backward(call, trace.activation_kept, gradient)[0];
  }
  const DeviceTensors own = parameter_values(step.first_parameter, step.own_parameters);
  const DeviceTensors own_gradients =
      parameter_gradients(step.first_parameter, step.own_parameters);
  std::vector<bool> wanted;
  for (const Use& input : step.inputs) wanted.push_back(input.use != kNoUse);
  DeviceCall call{*queue_, trace.inputs, own, own_gradients, wanted, true};
  call.key = step.key;
  call.step = flight.micro_batch.step;
  call.first_sample = flight.micro_batch.first_sample;
  DeviceTensors answers = layers_[layer]->backward(call, trace.kept, gradient);
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const Use& input = step.inputs[i];
    if (input.use != kNoUse) flight.use_gradients[input.slot][input.use] = std::move(answers[i]);
  }
  // What this layer kept is not needed any more; its output's gradients neither.
  trace = {};
  flight.use_gradients[step.output].clear();
}

NamedTensors OpenClBackend::gradients_of_inputs(const Flight& flight) {
  NamedTensors answer;
  for (std::size_t slot = 0; slot < graph_.producers().size(); ++slot) {
    const DeviceTensors& uses = flight.use_gradients[slot];
    if (uses.empty()) continue;
    Shape row = flight.values[slot].shape;
    row.insert(row.begin(), 1);
    std::vector<Tensor> slices;
    for (const DeviceTensor& own : uses) {
      slices.push_back(own.defined() ? queue_->download(own).reshaped(row) : Tensor::zeros(row));
    }
    answer.emplace(graph_.producers()[slot].name,
                   slices.size() == 1 ? slices[0] : concat_rows(slices));
  }
  return answer;
}

OpenClBackend::DeviceTensors OpenClBackend::parameter_values(std::size_t first,
                                                             std::size_t count) const {
  DeviceTensors values;
  for (std::size_t i = first; i < first + count; ++i) values.push_back(parameters_[i].value);
  return values;
}

OpenClBackend::DeviceTensors OpenClBackend::parameter_gradients(std::size_t first,
                                                                std::size_t count) {
  DeviceTensors gradients;
  for (std::size_t i = first; i < first + count; ++i) {
    parameters_[i].reached = parameters_[i].gradient.defined();
    gradients.push_back(parameters_[i].gradient);
  }
  return gradients;
}

}  // namespace harmonics::inline in_runtime
