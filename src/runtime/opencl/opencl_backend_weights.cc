// Weights of OpenClBackend: changed, saved and restored.
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>

#include "decay.h"
#include "inputs.h"
#include "opencl_backend.h"

namespace harmonics::inline in_runtime {
namespace {

Tensor fitting(const NamedTensors& values, const std::string& name, const DeviceTensor& like) {
  return convert_tensor(fitting_value(values, name, like.shape), like.dtype);
}

}  // namespace

std::map<std::string, double> OpenClBackend::gradient_square_sums() const {
  std::map<std::string, double> sums;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.reached) continue;
    double sum = 0;
    const Tensor here = queue_->download(parameter.gradient);
    for (const float value : here.values<float>()) sum += static_cast<double>(value) * value;
    sums[parameter.name] = sum;
  }
  return sums;
}

std::vector<std::string_view> OpenClBackend::optimizer_slots() const {
  if (optimizer_.kind != OptimizerKind::kSgd) return {"mean", "square"};
  if (optimizer_.momentum > 0) return {"momentum"};
  return {};
}

DeviceTensor& OpenClBackend::slot_of(const std::string& parameter, std::string_view slot,
                                     const Shape& shape) {
  DeviceTensor& value = optimizer_state_[parameter + "." + std::string(slot)];
  if (!value.defined()) value = queue_->zeros(shape);
  return value;
}

void OpenClBackend::update(const Update& update) {
  const auto factor = static_cast<float>(update.gradient_factor);
  const auto rate = static_cast<float>(update.learning_rate);
  const auto count = static_cast<double>(update.updates_before + 1);
  const bool shrinks = optimizer_.kind == OptimizerKind::kAdamW;
  const double mean_correction = 1.0 - std::pow(optimizer_.beta1, count);
  const double square_correction = 1.0 - std::pow(optimizer_.beta2, count);
  for (const Parameter& p : parameters_) {
    if (!p.reached) continue;
    queue_->at(format("the update of '{}'", p.name));
    const std::int64_t size = p.value.size();
    const double all_decay = decays(optimizer_.decay, p.bias_or_norm) ? optimizer_.weight_decay : 0;
    const auto decay = static_cast<float>(shrinks ? 0.0 : all_decay);
    if (optimizer_.kind != OptimizerKind::kSgd) {
      const DeviceTensor mean = slot_of(p.name, "mean", p.value.shape);
      const DeviceTensor square = slot_of(p.name, "square", p.value.shape);
      queue_->run("adam", size,
                  {p.value, p.gradient, mean, square, factor, decay,
                   static_cast<float>(shrinks ? 1.0 - update.learning_rate * all_decay : 1.0),
                   static_cast<float>(optimizer_.beta1), static_cast<float>(optimizer_.beta2),
                   static_cast<float>(update.learning_rate / mean_correction),
                   static_cast<float>(std::sqrt(square_correction)),
                   static_cast<float>(optimizer_.epsilon)});
    } else if (optimizer_.momentum > 0) {
      const DeviceTensor momentum = slot_of(p.name, "momentum", p.value.shape);
      queue_->run("sgd_momentum", size,
                  {p.value, p.gradient, momentum, factor, decay, rate,
                   static_cast<float>(optimizer_.momentum)});
    } else {
      queue_->run("sgd", size, {p.value, p.gradient, factor, decay, rate});
    }
  }
  reset();
}

void OpenClBackend::reset() {
  flights_.clear();
  for (const Parameter& parameter : parameters_) {
    if (parameter.reached) queue_->clear(parameter.gradient);
  }
}

NamedTensors OpenClBackend::parameters() const {
  NamedTensors all;
  for (const Parameter& parameter : parameters_) {
    all.emplace(parameter.name, queue_->download(parameter.value));
  }
  return all;
}

NamedTensors OpenClBackend::optimizer_state() const {
  NamedTensors all;
  for (const auto& [name, value] : optimizer_state_) all.emplace(name, queue_->download(value));
  return all;
}

NamedTensors OpenClBackend::gradients() const {
  NamedTensors all;
  for (const Parameter& parameter : parameters_) {
    if (parameter.reached) all.emplace(parameter.name, queue_->download(parameter.gradient));
  }
  return all;
}

void OpenClBackend::set_parameters(const NamedTensors& values) {
  std::vector<Tensor> all;  // checked whole before anything changes
  for (const Parameter& own : parameters_) all.push_back(fitting(values, own.name, own.value));
  for (std::size_t i = 0; i < all.size(); ++i) queue_->write(parameters_[i].value, all[i]);
}

void OpenClBackend::set_gradients(const NamedTensors& values) {
  for (Parameter& own : parameters_) {
    if (!own.gradient.defined() || !values.contains(own.name)) continue;
    queue_->write(own.gradient, fitting(values, own.name, own.gradient));
    own.reached = true;
  }
}

void OpenClBackend::set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) {
  std::map<std::string, DeviceTensor> state;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.gradient.defined() || updates_made == 0) continue;
    for (const std::string_view slot : optimizer_slots()) {
      const std::string name = parameter.name + "." + std::string(slot);
      // A parameter that no loss reaches never gets a slot.
      if (!values.contains(name)) continue;
      state[name] = queue_->upload(fitting(values, name, parameter.value));
    }
  }
  optimizer_state_ = std::move(state);
}

void OpenClBackend::set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) {
  optimizer_ = optimizer;
  optimizer_state_.clear();
  program_.set_seed(seed);
}

}  // namespace harmonics::inline in_runtime
