#include "torch/short_copies.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/version.h>

namespace harmonics::inline in_runtime {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Rounded {
  at::Tensor value;
};

/// Takes the copy for the parameter: what it learns is what the parameter learns.
class InShort : public torch::autograd::Function<InShort> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& parameter,
                            const Rounded& copy) {
    static_cast<void>(context);
    static_cast<void>(parameter);
    return copy.value.detach();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static_cast<void>(context);
    // Row after row, as the parameter lies.
    const at::Tensor& gradient = gradients[0];
    return {at::empty(gradient.sizes(), gradient.options().dtype(at::kFloat)).copy_(gradient), {}};
  }
};

}  // namespace

void copy_all(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  if (to.empty()) return;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
  at::_foreach_copy_(to, from);
#else
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
#endif
}

void ShortCopies::keep(std::size_t place, at::ScalarType type) {
  if (copies_.size() <= place) copies_.resize(place + 1);
  copies_[place].type = type;
}

void ShortCopies::refresh(const std::vector<at::Tensor>& parameters) {
  if (!are_old_ || copies_.empty()) return;
  // What is made for a batch that is only computed may serve a later one that learns.
  const c10::InferenceMode learnable(false);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> to, from;
  for (std::size_t place = 0; place < copies_.size(); ++place) {
    auto& [type, value] = copies_[place];
    if (type == at::kFloat) continue;
    const at::Tensor& parameter = parameters[place];
    if (!value.defined()) {
      const auto way =
          parameter.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
      value = at::empty(parameter.sizes(), parameter.options().dtype(type), way);
    }
    if (value.strides() == parameter.strides()) {
      to.push_back(value);
      from.push_back(parameter.detach());
    } else {
      value.copy_(parameter);
    }
  }
  copy_all(to, from);
  are_old_ = false;
}

at::Tensor ShortCopies::of(std::size_t place, const at::Tensor& parameter) const {
  if (place >= copies_.size() || !copies_[place].value.defined()) return {};
  if (!at::GradMode::is_enabled()) return copies_[place].value;
  return InShort::apply(parameter, Rounded{copies_[place].value});
}

}  // namespace harmonics::inline in_runtime
