#include <harmonics/runtime/parameter_set.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/tensor/torch.h>

#include "inputs.h"
#include "optimizer.h"

namespace harmonics::inline in_runtime {
namespace {

at::Tensor converted(const NamedTensors& values, const std::string& name, const at::Tensor& like) {
  return to_torch(fitting_value(values, name, like.sizes().vec())).to(like.options());
}

}  // namespace

struct ParameterSet::State {
  std::map<std::string, at::Tensor> values;
  Optimizer optimizer;
};

ParameterSet::ParameterSet(const NamedTensors& start, const OptimizerOptions& optimizer)
    : state_(new State{{}, Optimizer(optimizer)}) {
  if (optimizer.decay != DecayScope::kAll) {
    fail(ErrorCode::kUnimplemented,
         "parameters without their graph all decay: which are biases and norms is not known here; "
         "leave decay at all");
  }
  for (const auto& [name, tensor] : start) {
    if (tensor.dtype() != DType::kFloat32 && tensor.dtype() != DType::kFloat64) {
      fail(ErrorCode::kInvalidArgument, "parameter '{}' is {}: only float32 and float64 are learnt",
           name, dtype_name(tensor.dtype()));
    }
    state_->values.emplace(name, to_torch(tensor).clone());
  }
}
ParameterSet::~ParameterSet() = default;
ParameterSet::ParameterSet(ParameterSet&&) noexcept = default;
ParameterSet& ParameterSet::operator=(ParameterSet&&) noexcept = default;

NamedTensors ParameterSet::values() const {
  NamedTensors copies;
  for (const auto& [name, value] : state_->values) copies.emplace(name, from_torch(value.clone()));
  return copies;
}

NamedTensors ParameterSet::optimizer_state() const {
  NamedTensors copies;
  for (const auto& [name, value] : state_->optimizer.state()) {
    copies.emplace(name, from_torch(value.clone()));
  }
  return copies;
}

void ParameterSet::restore(const NamedTensors& values, const NamedTensors& optimizer_state) {
  std::map<std::string, at::Tensor> fresh;
  std::map<std::string, at::Tensor> slots;
  for (const auto& [name, value] : state_->values) {
    fresh.emplace(name, converted(values, name, value).clone());
    for (const std::string_view slot : state_->optimizer.slots()) {
      const std::string full = name + "." + std::string(slot);
      if (!optimizer_state.contains(full)) continue;
      slots.emplace(full, converted(optimizer_state, full, value).clone());
    }
  }
  state_->values = std::move(fresh);
  state_->optimizer.set_state(std::move(slots));
}

void ParameterSet::update(const NamedTensors& gradients, const Update& update) {
  const at::NoGradGuard no_grad;
  std::vector<Learnt> all;  // checked whole before anything changes
  for (const auto& [name, value] : state_->values) {
    all.push_back({name, value, converted(gradients, name, value)});
  }
  state_->optimizer.apply(all, update);
}

std::map<std::string, double> ParameterSet::square_sums(const NamedTensors& gradients) {
  std::map<std::string, double> sums;
  for (const auto& [name, tensor] : gradients) {
    sums[name] = to_torch(tensor).to(at::kDouble).square().sum().item<double>();
  }
  return sums;
}

}  // namespace harmonics::inline in_runtime
