#include "optimizer.h"

#include <cmath>

namespace harmonics {

std::vector<std::string_view> Optimizer::slots() const {
  if (options_.kind != OptimizerKind::kSgd) return {"mean", "square"};
  if (options_.momentum > 0) return {"momentum"};
  return {};
}

void Optimizer::apply(const std::string& name, at::Tensor& parameter, at::Tensor gradient,
                      const Update& update) {
  if (update.gradient_factor != 1.0) gradient = gradient * update.gradient_factor;
  if (options_.weight_decay != 0) {
    if (options_.kind == OptimizerKind::kAdamW) {
      parameter.mul_(1.0 - update.learning_rate * options_.weight_decay);
    } else {
      gradient = gradient.add(parameter, options_.weight_decay);
    }
  }
  if (options_.kind == OptimizerKind::kSgd) {
    apply_sgd(name, parameter, gradient, update.learning_rate);
  } else {
    apply_adam(name, parameter, gradient, update);
  }
}

void Optimizer::apply_sgd(const std::string& name, at::Tensor& parameter,
                          const at::Tensor& gradient, double rate) {
  if (options_.momentum == 0) {
    parameter.add_(gradient, -rate);
    return;
  }
  at::Tensor& momentum = slot(name, "momentum", parameter);
  momentum.mul_(options_.momentum).add_(gradient);
  parameter.add_(momentum, -rate);
}

void Optimizer::apply_adam(const std::string& name, at::Tensor& parameter,
                           const at::Tensor& gradient, const Update& update) {
  at::Tensor& mean = slot(name, "mean", parameter);
  at::Tensor& square = slot(name, "square", parameter);
  const auto count = static_cast<double>(update.updates_before + 1);
  const double mean_correction = 1.0 - std::pow(options_.beta1, count);
  const double square_correction = 1.0 - std::pow(options_.beta2, count);
  mean.mul_(options_.beta1).add_(gradient, 1.0 - options_.beta1);
  square.mul_(options_.beta2).addcmul_(gradient, gradient, 1.0 - options_.beta2);
  const at::Tensor width =
      (square.sqrt().div_(std::sqrt(square_correction))).add_(options_.epsilon);
  parameter.addcdiv_(mean, width, -update.learning_rate / mean_correction);
}

at::Tensor& Optimizer::slot(const std::string& name, std::string_view slot,
                            const at::Tensor& like) {
  at::Tensor& value = state_[name + "." + std::string(slot)];
  if (!value.defined()) value = at::zeros_like(like);
  return value;
}

}  // namespace harmonics
