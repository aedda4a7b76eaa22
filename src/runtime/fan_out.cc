#include "fan_out.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace harmonics::inline in_runtime {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class FanOut : public torch::autograd::Function<FanOut> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& value,
                               std::int64_t count) {
    context->set_materialize_grads(false);
    variable_list aliases;
    for (std::int64_t i = 0; i < count; ++i) aliases.push_back(value.detach());
    return aliases;
  }

  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    at::Tensor sum;
    for (const at::Tensor& gradient : gradients) {
      if (gradient.defined()) sum = sum.defined() ? sum + gradient : gradient;
    }
    return {sum, at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> fan_out(const at::Tensor& value, std::size_t count) {
  return FanOut::apply(value, static_cast<std::int64_t>(count));
}

}  // namespace harmonics::inline in_runtime
