// Weights of ExactBackend: changed, saved and restored.
#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>

#include "decay.h"
#include "exact_backend.h"
#include "exact_rate.h"
#include "exact_threads.h"
#include "inputs.h"

namespace harmonics::inline in_runtime {
namespace {

Tensor fitting_floats(const NamedTensors& values, const std::string& name, const Tensor& like) {
  return convert_tensor(cpu_tensor(fitting_value(values, name, like.shape())), DType::kFloat32);
}

Tensor copy_of(const Tensor& value) {
  return Tensor::of<float>(value.shape(), value.values<float>());
}

void fill_from(const Tensor& to, const Tensor& from) {
  std::ranges::copy(from.values<float>(), own_numbers(to));
}

// The same update over a range of a parameter.
ExactUpdate part_of(const ExactUpdate& whole, std::int64_t begin, std::int64_t end) {
  ExactUpdate part = whole;
  part.count = end - begin;
  part.value += begin;
  part.gradient += begin;
  if (part.first != nullptr) part.first += begin;
  if (part.second != nullptr) part.second += begin;
  return part;
}

}  // namespace

std::map<std::string, double> ExactBackend::gradient_square_sums() const {
  std::map<std::string, double> sums;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.reached) continue;
    sums[parameter.name] =
        kernels_.square_sum(parameter.gradient.size(), numbers_of(parameter.gradient));
  }
  return sums;
}

std::vector<std::string_view> ExactBackend::optimizer_slots() const {
  if (optimizer_.kind != OptimizerKind::kSgd) return {"mean", "square"};
  if (optimizer_.momentum > 0) return {"momentum"};
  return {};
}

Tensor& ExactBackend::slot_of(const std::string& parameter, std::string_view slot,
                              const Shape& shape) {
  Tensor& value = optimizer_state_[parameter + "." + std::string(slot)];
  if (!value.defined()) value = Tensor::zeros(shape);
  return value;
}

void ExactBackend::update(const Update& update) {
  const std::int64_t count = update.updates_before + 1;
  const double mean_correction = 1.0 - exact_power(optimizer_.beta1, count);
  const double square_correction = 1.0 - exact_power(optimizer_.beta2, count);
  const bool adam = optimizer_.kind != OptimizerKind::kSgd;
  const auto function = adam                      ? kernels_.adam
                        : optimizer_.momentum > 0 ? kernels_.sgd_momentum
                                                  : kernels_.sgd;
  for (const Parameter& p : parameters_) {
    if (!p.reached) continue;
    const double decay = decays(optimizer_.decay, p.bias_or_norm) ? optimizer_.weight_decay : 0;
    const bool shrinks = optimizer_.kind == OptimizerKind::kAdamW;
    ExactUpdate whole;
    whole.value = own_numbers(p.value);
    whole.gradient = numbers_of(p.gradient);
    whole.factor = static_cast<float>(update.gradient_factor);
    whole.decay = static_cast<float>(shrinks ? 0.0 : decay);
    whole.shrink = static_cast<float>(shrinks ? 1.0 - update.learning_rate * decay : 1.0);
    whole.rate =
        static_cast<float>(adam ? update.learning_rate / mean_correction : update.learning_rate);
    whole.momentum = static_cast<float>(optimizer_.momentum);
    whole.beta1 = static_cast<float>(optimizer_.beta1);
    whole.beta2 = static_cast<float>(optimizer_.beta2);
    whole.square_root = static_cast<float>(std::sqrt(square_correction));
    whole.epsilon = static_cast<float>(optimizer_.epsilon);
    const std::vector<std::string_view> slots = optimizer_slots();
    if (!slots.empty()) whole.first = own_numbers(slot_of(p.name, slots[0], p.value.shape()));
    if (slots.size() > 1) whole.second = own_numbers(slot_of(p.name, slots[1], p.value.shape()));
    in_exact_threads(p.value.size(), kExactGrain, [&](std::int64_t begin, std::int64_t end) {
      function(part_of(whole, begin, end));
    });
  }
  reset();
}

void ExactBackend::reset() {
  flights_.clear();
  for (Parameter& parameter : parameters_) {
    parameter.pass = {};
    parameter.holds = false;
    if (!parameter.reached) continue;
    std::fill_n(own_numbers(parameter.gradient), parameter.gradient.size(), 0.0F);
  }
}

NamedTensors ExactBackend::parameters() const {
  NamedTensors all;
  for (const Parameter& parameter : parameters_) all.emplace(parameter.name, parameter.value);
  return all;
}

NamedTensors ExactBackend::optimizer_state() const {
  NamedTensors all;
  for (const auto& [name, value] : optimizer_state_) all.emplace(name, value);
  return all;
}

NamedTensors ExactBackend::gradients() const {
  NamedTensors all;
  for (const Parameter& parameter : parameters_) {
    if (parameter.reached) all.emplace(parameter.name, copy_of(parameter.gradient));
  }
  return all;
}

void ExactBackend::set_parameters(const NamedTensors& values) {
  Tensors all;  // checked whole before anything changes
  for (const Parameter& own : parameters_) {
    all.push_back(fitting_floats(values, own.name, own.value));
  }
  for (std::size_t i = 0; i < all.size(); ++i) fill_from(parameters_[i].value, all[i]);
}

void ExactBackend::set_gradients(const NamedTensors& values) {
  for (Parameter& own : parameters_) {
    if (!own.gradient.defined() || !values.contains(own.name)) continue;
    fill_from(own.gradient, fitting_floats(values, own.name, own.gradient));
    own.reached = own.holds = true;
  }
}

void ExactBackend::set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) {
  std::map<std::string, Tensor> state;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.gradient.defined() || updates_made == 0) continue;
    for (const std::string_view slot : optimizer_slots()) {
      const std::string name = parameter.name + "." + std::string(slot);
      // A parameter that no loss reaches never gets a slot.
      if (values.contains(name))
        state[name] = copy_of(fitting_floats(values, name, parameter.value));
    }
  }
  optimizer_state_ = std::move(state);
}

void ExactBackend::set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) {
  optimizer_ = optimizer;
  optimizer_state_.clear();
  program_.set_seed(seed);
}

}  // namespace harmonics::inline in_runtime
