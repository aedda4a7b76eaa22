#include "optimizer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstddef>

namespace harmonics::inline in_runtime {
namespace {

// Parameters of a GPU are updated in groups of this size, each operation with a few kernels for the
// whole group: the temporary values of one group fit beside any model that trains.
constexpr std::size_t kGroupBytes = std::size_t{64} << 20;

// Where the group that begins at `first` ends. On the CPU a parameter goes through all its
// operations while it is in the cache, so there each is a group of its own.
std::size_t group_end(const std::vector<Learnt>& all, std::size_t first) {
  std::size_t bytes = all[first].parameter.nbytes(), end = first + 1;
  if (!all[first].parameter.is_cuda()) return end;
  while (end < all.size() && bytes < kGroupBytes && all[end].decays == all[first].decays &&
         all[end].parameter.options().type_equal(all[first].parameter.options())) {
    bytes += all[end++].parameter.nbytes();
  }
  return end;
}

}  // namespace

std::vector<std::string_view> Optimizer::slots() const {
  if (options_.kind != OptimizerKind::kSgd) return {"mean", "square"};
  if (options_.momentum > 0) return {"momentum"};
  return {};
}

void Optimizer::apply(const std::vector<Learnt>& all, const Update& update) {
  for (std::size_t first = 0; first < all.size();) {
    const std::size_t end = group_end(all, first);
    Group group;
    group.decays = all[first].decays;
    for (std::size_t i = first; i < end; ++i) {
      group.names.push_back(all[i].name);
      group.parameters.push_back(all[i].parameter);
      group.gradients.push_back(all[i].gradient);
    }
    apply_group(std::move(group), update);
    first = end;
  }
}

void Optimizer::apply_group(Group group, const Update& update) {
  if (update.gradient_factor != 1.0) {
    group.gradients = at::_foreach_mul(group.gradients, update.gradient_factor);
  }
  if (options_.weight_decay != 0 && group.decays) {
    if (options_.kind == OptimizerKind::kAdamW) {
      at::_foreach_mul_(group.parameters, 1.0 - update.learning_rate * options_.weight_decay);
    } else {
      group.gradients = at::_foreach_add(group.gradients, group.parameters, options_.weight_decay);
    }
  }
  if (options_.kind == OptimizerKind::kSgd) {
    apply_sgd(group, update.learning_rate);
  } else {
    apply_adam(group, update);
  }
}

void Optimizer::apply_sgd(const Group& group, double rate) {
  if (options_.momentum == 0) {
    at::_foreach_add_(group.parameters, group.gradients, -rate);
    return;
  }
  const std::vector<at::Tensor> momenta = slot(group, "momentum");
  at::_foreach_mul_(momenta, options_.momentum);
  at::_foreach_add_(momenta, group.gradients);
  at::_foreach_add_(group.parameters, momenta, -rate);
}

void Optimizer::apply_adam(const Group& group, const Update& update) {
  const std::vector<at::Tensor> means = slot(group, "mean"), squares = slot(group, "square");
  const auto count = static_cast<double>(update.updates_before + 1);
  const double mean_correction = 1.0 - std::pow(options_.beta1, count);
  const double square_correction = 1.0 - std::pow(options_.beta2, count);
  at::_foreach_mul_(means, options_.beta1);
  at::_foreach_add_(means, group.gradients, 1.0 - options_.beta1);
  at::_foreach_mul_(squares, options_.beta2);
  at::_foreach_addcmul_(squares, group.gradients, group.gradients, 1.0 - options_.beta2);
  const std::vector<at::Tensor> widths = at::_foreach_sqrt(squares);
  at::_foreach_div_(widths, std::sqrt(square_correction));
  at::_foreach_add_(widths, options_.epsilon);
  at::_foreach_addcdiv_(group.parameters, means, widths, -update.learning_rate / mean_correction);
}

std::vector<at::Tensor> Optimizer::slot(const Group& group, std::string_view slot) {
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < group.names.size(); ++i) {
    at::Tensor& value = state_[group.names[i] + "." + std::string(slot)];
    if (!value.defined()) value = at::zeros_like(group.parameters[i]);
    values.push_back(value);
  }
  return values;
}

}  // namespace harmonics::inline in_runtime
