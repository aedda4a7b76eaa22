// Weights of ExactBackend: changed, saved and restored.
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>

#include "decay.h"
#include "exact_backend.h"
#include "exact_rate.h"
#include "inputs.h"

namespace harmonics::inline in_runtime {
namespace {

Tensor fitting_floats(const NamedTensors& values, const std::string& name, const ExactArray& like) {
  return convert_tensor(cpu_tensor(fitting_value(values, name, like.shape)), DType::kFloat32);
}

Tensor copy_of(const Tensor& value) {
  return Tensor::of<float>(value.shape(), value.values<float>());
}

}  // namespace

std::map<std::string, double> ExactBackend::gradient_square_sums() const {
  Arrays reached;
  for (const Parameter& parameter : parameters_) {
    if (parameter.reached) reached.push_back(parameter.gradient);
  }
  const std::vector<double> all = place_->square_sums(reached);
  std::map<std::string, double> sums;
  auto next = all.begin();
  for (const Parameter& parameter : parameters_) {
    if (parameter.reached) sums[parameter.name] = *next++;
  }
  return sums;
}

std::vector<std::string_view> ExactBackend::optimizer_slots() const {
  if (optimizer_.kind != OptimizerKind::kSgd) return {"mean", "square"};
  if (optimizer_.momentum > 0) return {"momentum"};
  return {};
}

ExactArray ExactBackend::slot_of(const std::string& parameter, std::string_view slot,
                                 const Shape& shape) {
  ExactArray& value = optimizer_state_[parameter + "." + std::string(slot)];
  if (!value.defined()) value = place_->zeros(shape);
  return value;
}

void ExactBackend::update(const Update& update) {
  const std::int64_t count = update.updates_before + 1;
  const double mean_correction = 1.0 - exact_power(optimizer_.beta1, count);
  const double square_correction = 1.0 - exact_power(optimizer_.beta2, count);
  const bool adam = optimizer_.kind != OptimizerKind::kSgd;
  const ExactRule rule = adam                      ? ExactRule::kAdam
                         : optimizer_.momentum > 0 ? ExactRule::kMomentum
                                                   : ExactRule::kSgd;
  for (const Parameter& p : parameters_) {
    if (!p.reached) continue;
    const double decay = decays(optimizer_.decay, p.bias_or_norm) ? optimizer_.weight_decay : 0;
    const bool shrinks = optimizer_.kind == OptimizerKind::kAdamW;
    ExactUpdate whole;
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
    ExactWeights weights{p.value, p.gradient, {}, {}};
    if (!slots.empty()) weights.first = slot_of(p.name, slots[0], p.value.shape);
    if (slots.size() > 1) weights.second = slot_of(p.name, slots[1], p.value.shape);
    place_->at(format("the update of '{}'", p.name));
    place_->update(rule, whole, weights);
  }
  reset();
}

void ExactBackend::reset() {
  flights_.clear();
  for (Parameter& parameter : parameters_) {
    parameter.pass = {};
    parameter.holds = false;
    if (parameter.reached) place_->clear(parameter.gradient);
  }
}

NamedTensors ExactBackend::parameters() const {
  NamedTensors all;
  for (const Parameter& parameter : parameters_)
    all.emplace(parameter.name, place_->give(parameter.value));
  return all;
}

NamedTensors ExactBackend::optimizer_state() const {
  NamedTensors all;
  for (const auto& [name, value] : optimizer_state_) all.emplace(name, place_->give(value));
  return all;
}

NamedTensors ExactBackend::gradients() const {
  NamedTensors all;
  for (const Parameter& parameter : parameters_) {
    if (parameter.reached) all.emplace(parameter.name, copy_of(place_->give(parameter.gradient)));
  }
  return all;
}

void ExactBackend::set_parameters(const NamedTensors& values) {
  std::vector<Tensor> all;  // checked whole before anything changes
  for (const Parameter& own : parameters_) {
    all.push_back(fitting_floats(values, own.name, own.value));
  }
  for (std::size_t i = 0; i < all.size(); ++i) place_->write(parameters_[i].value, all[i]);
}

void ExactBackend::set_gradients(const NamedTensors& values) {
  for (Parameter& own : parameters_) {
    if (!own.gradient.defined() || !values.contains(own.name)) continue;
    place_->write(own.gradient, fitting_floats(values, own.name, own.gradient));
    own.reached = own.holds = true;
  }
}

void ExactBackend::set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) {
  std::map<std::string, ExactArray> state;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.gradient.defined() || updates_made == 0) continue;
    for (const std::string_view slot : optimizer_slots()) {
      const std::string name = parameter.name + "." + std::string(slot);
      // A parameter that no loss reaches never gets a slot.
      if (values.contains(name))
        state[name] = place_->take(copy_of(fitting_floats(values, name, parameter.value)));
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
