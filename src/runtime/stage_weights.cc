#include <torch/torch.h>

#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/digest.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/tensor/torch.h>

#include "stage_state.h"

namespace harmonics {

std::map<std::string, double> Stage::gradient_square_sums() const {
  std::map<std::string, double> sums;
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    const at::Tensor& gradient = state_->parameters[i].grad();
    if (gradient.defined()) {
      sums[state_->names[i]] = gradient.to(at::kDouble).square().sum().item<double>();
    }
  }
  return sums;
}

void Stage::update(const Update& update) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    at::Tensor& parameter = state_->parameters[i];
    if (!parameter.grad().defined()) continue;
    state_->optimizer.apply(state_->names[i], parameter, parameter.grad(), update);
  }
  reset();
}

void Stage::reset() {
  // Gradients keep their memory: fresh pages every step would cost more than clearing.
  const torch::NoGradGuard no_grad;
  state_->flights.clear();
  for (at::Tensor& parameter : state_->parameters) {
    if (parameter.grad().defined()) parameter.mutable_grad().zero_();
  }
}

NamedTensors Stage::parameters() const {
  NamedTensors all;
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    all.emplace(state_->names[i], from_torch(state_->parameters[i].cpu()));
  }
  return all;
}

NamedTensors Stage::optimizer_state() const {
  NamedTensors all;
  for (const auto& [name, value] : state_->optimizer.state()) {
    all.emplace(name, from_torch(value.cpu()));
  }
  return all;
}

NamedTensors Stage::gradients() const {
  NamedTensors all;
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    const at::Tensor& gradient = state_->parameters[i].grad();
    if (gradient.defined()) all.emplace(state_->names[i], from_torch(gradient.cpu().clone()));
  }
  return all;
}

namespace {

at::Tensor fitting(const NamedTensors& values, const std::string& name, const at::Tensor& like) {
  const auto found = values.find(name);
  if (found == values.end()) fail(ErrorCode::kNotFound, "there is no value for '{}'", name);
  const Shape shape(like.sizes().begin(), like.sizes().end());
  if (found->second.shape() != shape) {
    fail(ErrorCode::kInvalidArgument, "'{}' has shape {} here and {} in the file", name,
         shape_text(shape), shape_text(found->second.shape()));
  }
  return to_torch(found->second);
}

}  // namespace

void Stage::set_parameters(const NamedTensors& values) {
  const torch::NoGradGuard no_grad;
  Tensors all;  // checked whole before anything changes
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    all.push_back(fitting(values, state_->names[i], state_->parameters[i]));
  }
  for (std::size_t i = 0; i < all.size(); ++i) state_->parameters[i].copy_(all[i]);
}

void Stage::set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) {
  std::map<std::string, at::Tensor> state;
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    const at::Tensor& parameter = state_->parameters[i];
    if (!parameter.requires_grad() || updates_made == 0) continue;
    for (const std::string_view slot : state_->optimizer.slots()) {
      const std::string name = state_->names[i] + "." + std::string(slot);
      // A parameter that no loss reaches never gets a slot.
      if (!values.contains(name)) continue;
      state[name] = fitting(values, name, parameter).to(parameter.options()).clone();
    }
  }
  state_->optimizer.set_state(std::move(state));
}

std::string weights_digest(const NamedTensors& weights) {
  Sha256 digest;
  for (const auto& [name, value] : weights) {
    ByteWriter head;
    head.text(name);
    head.text(dtype_name(value.dtype()));
    head.number(static_cast<std::uint32_t>(value.shape().size()));
    for (const std::int64_t axis : value.shape()) head.number(axis);
    digest.update(head.bytes()).update(value.bytes());
  }
  return digest_text(digest.finish());
}

}  // namespace harmonics
