#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/tensor/torch.h>

#include "decay.h"
#include "inputs.h"
#include "torch_backend.h"

namespace harmonics::inline in_runtime {

// Of layers whose products read them as they are. A tied parameter has a gradient for each use.
void TorchBackend::choose_shorts() {
  if (!channels_last_) return;
  const at::ScalarType type = precision_ == PrecisionPolicy::kBf16 ? at::kBFloat16 : at::kHalf;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& layer = graph_.layers()[origins_[i].first].type;
    const bool multiplies = layer == "linear" || layer == "conv2d" || layer == "attention";
    if (!multiplies || !owns(i) || shared_.contains(i) || !parameters_[i].defined()) continue;
    if (parameters_[i].scalar_type() == at::kFloat) shorts_.keep(i, type);
  }
}

Tensors TorchBackend::shorts_of(const LayerStep& step, std::span<const at::Tensor> own) const {
  Tensors all;
  if (shorts_.empty() || step.given_weight >= 0) return all;
  for (std::size_t k = 0; k < step.own_parameters; ++k) {
    all.push_back(shorts_.of(step.first_parameter + k, own[k]));
  }
  return all;
}

std::map<std::string, double> TorchBackend::gradient_square_sums() const {
  std::map<std::string, double> sums;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (owns(i) && gradient.defined()) {
      sums[names_[i]] = gradient.to(at::kDouble).square().sum().item<double>();
    }
  }
  return sums;
}

std::vector<Learnt> TorchBackend::learnt() const {
  const DecayScope scope = optimizer_.options().decay;
  std::vector<Learnt> all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (!owns(i) || !gradient.defined()) continue;
    all.push_back({names_[i], parameters_[i], gradient, decays(scope, biases_and_norms_[i])});
  }
  return all;
}

void TorchBackend::update(const Update& update) {
  forget_kept();
  shorts_.outdate();
  const at::NoGradGuard no_grad;
  optimizer_.apply(learnt(), update);
  reset();
}

void TorchBackend::reset() {
  // On the CPU gradients keep their memory: fresh pages every step would cost more than clearing. A
  // GPU's memory comes from libtorch's pool, and the next backward pass need not add to zeros.
  const at::NoGradGuard no_grad;
  forget_sent();
  flights_.clear();
  launched_.clear();
  untold_.clear();
  heard_.clear();
  set_is_open_ = false;
  for (at::Tensor& parameter : parameters_) {
    if (!parameter.grad().defined()) continue;
    if (device_.kind == DeviceKind::kCuda) {
      parameter.mutable_grad().reset();
    } else {
      parameter.mutable_grad().zero_();
    }
  }
}

NamedTensors TorchBackend::parameters() const {
  draw();
  NamedTensors all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (owns(i)) all.emplace(names_[i], from_torch(parameters_[i].cpu()));
  }
  return all;
}

NamedTensors TorchBackend::optimizer_state() const {
  NamedTensors all;
  for (const auto& [name, value] : optimizer_.state()) {
    all.emplace(name, from_torch(value.cpu()));
  }
  return all;
}

NamedTensors TorchBackend::gradients() const {
  NamedTensors all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (owns(i) && gradient.defined()) all.emplace(names_[i], from_torch(gradient.cpu().clone()));
  }
  return all;
}

namespace {

at::Tensor fitting(const NamedTensors& values, const std::string& name, const at::Tensor& like) {
  return to_torch(fitting_value(values, name, like.sizes().vec()));
}

}  // namespace

void TorchBackend::set_gradients(const NamedTensors& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    if (!owns(i) || !parameter.requires_grad() || !values.contains(names_[i])) continue;
    const at::Tensor value = fitting(values, names_[i], parameter);
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::empty_like(parameter);
    parameter.mutable_grad().copy_(value);
  }
}

void TorchBackend::take_gradients(const NamedTensors& values) {
  NamedTensors copied;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    if (!owns(i) || !parameter.requires_grad() || !values.contains(names_[i])) continue;
    at::Tensor value = fitting(values, names_[i], parameter);
    if (parameter.is_cpu() && value.is_cpu() && value.scalar_type() == parameter.scalar_type()) {
      parameter.mutable_grad() = std::move(value);
    } else {
      copied.emplace(names_[i], values.find(names_[i])->second);
    }
  }
  set_gradients(copied);
}

namespace {

/// Runs after the gradient of a micro-batch was added to that of a parameter.
class GradientHook final : public torch::autograd::FunctionPostHook {
 public:
  explicit GradientHook(std::function<void()> told) : told_(std::move(told)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    told_();
    return outputs;
  }

 private:
  const std::function<void()> told_;
};

}  // namespace

// A GPU's gradients come from threads and streams of libtorch: there they are read after the pass.
void TorchBackend::listen_for_gradients(std::uint32_t last_micro_batch, GradientListener listener) {
  if (device_.kind != DeviceKind::kCpu) return;
  listener_ = std::move(listener);
  listened_micro_batch_ = last_micro_batch;
}

void TorchBackend::begin_listening(const MicroBatch& micro_batch) {
  listens_ = listener_ != nullptr && micro_batch.index == listened_micro_batch_;
  if (!listens_) return;
  gatherers_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!owns(i) || !parameters_[i].requires_grad()) continue;
    auto gatherer = torch::autograd::impl::grad_accumulator(parameters_[i]);
    if (gatherer == gatherers_[i]) continue;  // the parameter is the one it was
    gatherer->add_post_hook(std::make_unique<GradientHook>([this, i] {
      if (listens_) listener_(names_[i], from_torch(parameters_[i].grad()));
    }));
    gatherers_[i] = std::move(gatherer);
  }
}

NamedTensors TorchBackend::buffers() const {
  draw();
  NamedTensors all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!owns(i) || parameters_[i].requires_grad()) continue;
    all.emplace(names_[i], from_torch(parameters_[i].cpu().clone()));
  }
  return all;
}

Tensors TorchBackend::statistics() const {
  Tensors all;
  for (const at::Tensor& parameter : parameters_) {
    all.push_back(parameter.requires_grad() ? at::Tensor() : parameter.clone());
  }
  return all;
}

void TorchBackend::put_back(const Tensors& statistics) {
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    // Beside autograd, which would take what it keeps for the backward pass as changed.
    if (statistics[i].defined()) parameters_[i].variable_data().copy_(statistics[i]);
  }
}

void TorchBackend::set_buffers(const NamedTensors& values) {
  forget_kept();
  shorts_.outdate();
  draw();
  take_over();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!owns(i) || parameters_[i].requires_grad() || !values.contains(names_[i])) continue;
    parameters_[i].copy_(fitting(values, names_[i], parameters_[i]));
  }
}

void TorchBackend::set_parameters(const NamedTensors& values) {
  forget_kept();
  shorts_.outdate();
  const at::NoGradGuard no_grad;
  Tensors all;  // checked whole before anything changes
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    all.push_back(owns(i) ? fitting(values, names_[i], parameters_[i]) : at::Tensor());
  }
  take_over();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (owns(i)) parameters_[i].copy_(all[i]);
  }
  undrawn_.clear();
  forget_sent();
}

void TorchBackend::load_parameters(const ParameterReader& read) {
  forget_kept();
  shorts_.outdate();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!owns(i)) continue;  // a tied parameter that stands again
    const NamedTensors one{{names_[i], read(names_[i])}};
    const at::Tensor value = fitting(one, names_[i], parameters_[i]);
    if (maps_weights_ && value.scalar_type() == parameters_[i].scalar_type()) {
      set_parameter(i, value);
      mapped_.insert(i);
    } else if (mapped_.erase(i) > 0) {
      set_parameter(i, value.to(parameters_[i].scalar_type(), /*non_blocking=*/false, true));
    } else {
      parameters_[i].copy_(value);
    }
    undrawn_.erase(i);
  }
  forget_sent();
}

void TorchBackend::set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) {
  std::map<std::string, at::Tensor> state;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    if (!owns(i) || !parameter.requires_grad() || updates_made == 0) continue;
    for (const std::string_view slot : optimizer_.slots()) {
      const std::string name = names_[i] + "." + std::string(slot);
      // A parameter that no loss reaches never gets a slot.
      if (!values.contains(name)) continue;
      state[name] = fitting(values, name, parameter).to(parameter.options()).clone();
    }
  }
  optimizer_.set_state(std::move(state));
}

void TorchBackend::set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) {
  optimizer_ = Optimizer(optimizer);
  program_.set_seed(seed);
}

}  // namespace harmonics::inline in_runtime
