// SGD, Adam and AdamW over a list of parameters (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/runtime/options.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {

/// A parameter and the gradient that changes it.
struct Learnt {
  std::string name;
  at::Tensor parameter;
  at::Tensor gradient;
  /// Whether weight decay makes it smaller.
  bool decays = true;
};

/// Holds the state of each parameter in named slots ("momentum", "mean", "square"), made at its
/// first update. The rules are those of torch.optim.SGD, Adam and AdamW.
class Optimizer {
 public:
  explicit Optimizer(const OptimizerOptions& options) : options_(options) {}

  /// Changes each parameter by its gradient. Call it without autograd recording.
  void apply(const std::vector<Learnt>& all, const Update& update);

  /// The slots that this kind of optimiser keeps once a parameter has been updated.
  [[nodiscard]] std::vector<std::string_view> slots() const;
  [[nodiscard]] const OptimizerOptions& options() const { return options_; }
  [[nodiscard]] const std::map<std::string, at::Tensor>& state() const { return state_; }
  void set_state(std::map<std::string, at::Tensor> state) { state_ = std::move(state); }

 private:
  struct Group {
    std::vector<std::string> names;
    std::vector<at::Tensor> parameters, gradients;
    bool decays = true;
  };

  void apply_group(Group group, const Update& update);
  void apply_sgd(const Group& group, double rate);
  void apply_adam(const Group& group, const Update& update);
  std::vector<at::Tensor> slot(const Group& group, std::string_view slot);

  OptimizerOptions options_;
  std::map<std::string, at::Tensor> state_;  // "<parameter>.<slot>"
};

}  // namespace harmonics::inline in_runtime
