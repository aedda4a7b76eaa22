#include <map>
#include <string>

#include <harmonics/base/error.h>

#include "exact_operation.h"
#include "exact_threads.h"

namespace harmonics::inline in_runtime {
namespace {

/// Looks at each number alone.
class ElementActivation final : public ExactOperation {
 public:
  explicit ElementActivation(ExactActivation kind) : kind_(kind) {}

  Tensor forward(const ExactCall& call, ExactKept&) const override {
    Tensor y = call.like_input();
    const float* const x = numbers_of(call.inputs[0]);
    float* const to = own_numbers(y);
    in_exact_threads(y.size(), kExactGrain, [&](std::int64_t begin, std::int64_t end) {
      call.kernels.activate(kind_, end - begin, x + begin, to + begin);
    });
    return y;
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    Tensor answer = call.like_input();
    const float *const x = numbers_of(call.inputs[0]), *const g = numbers_of(gradient);
    float* const to = own_numbers(answer);
    in_exact_threads(answer.size(), kExactGrain, [&](std::int64_t begin, std::int64_t end) {
      call.kernels.activate_back(kind_, end - begin, x + begin, g + begin, to + begin);
    });
    return {answer};
  }

 private:
  ExactActivation kind_;
};

/// Over the last axis.
class SoftmaxActivation final : public ExactOperation {
 public:
  Tensor forward(const ExactCall& call, ExactKept& kept) const override {
    Tensor y = call.like_input();
    const std::int64_t width = y.shape().back(), rows = width == 0 ? 0 : y.size() / width;
    const float* const x = numbers_of(call.inputs[0]);
    float* const to = own_numbers(y);
    in_exact_threads(rows, kExactGrain / (width + 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         call.kernels.softmax(width, x + r * width, to + r * width);
                       }
                     });
    if (call.training) kept.tensors = {y};
    return y;
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept& kept,
                               const Tensor& gradient) const override {
    Tensor answer = call.like_input();
    const std::int64_t width = answer.shape().back(), rows = width == 0 ? 0 : answer.size() / width;
    const float *const y = numbers_of(kept.tensors[0]), *const g = numbers_of(gradient);
    float* const to = own_numbers(answer);
    in_exact_threads(
        rows, kExactGrain / (width + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r) {
            call.kernels.softmax_back(width, y + r * width, g + r * width, to + r * width);
          }
        });
    return {answer};
  }
};

/// x above 0, else x times a slope that is learnt; its gradient is one chain over all elements.
class PreluActivation final : public ExactOperation {
 public:
  Tensor forward(const ExactCall& call, ExactKept&) const override {
    Tensor y = call.like_input();
    const float slope = numbers_of(call.parameters[0])[0];
    const float* const x = numbers_of(call.inputs[0]);
    float* const to = own_numbers(y);
    for (std::int64_t i = 0; i < y.size(); ++i) to[i] = x[i] > 0 ? x[i] : slope * x[i];
    return y;
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    Tensor answer = call.like_input();
    const float slope = numbers_of(call.parameters[0])[0];
    const float *const x = numbers_of(call.inputs[0]), *const g = numbers_of(gradient);
    float* const to = own_numbers(answer);
    float sum = numbers_of(call.gradients[0])[0];
    for (std::int64_t i = 0; i < answer.size(); ++i) {
      to[i] = x[i] > 0 ? g[i] : slope * g[i];
      if (!(x[i] > 0)) sum = __builtin_fmaf(g[i], x[i], sum);
    }
    own_numbers(call.gradients[0])[0] = sum;
    return {answer};
  }
};

}  // namespace

std::optional<ExactActivation> exact_activation_of(std::string_view name) {
  static const std::map<std::string, ExactActivation, std::less<>> kKinds = {
      {"relu", ExactActivation::kRelu},          {"sigmoid", ExactActivation::kSigmoid},
      {"tanh", ExactActivation::kTanh},          {"gelu", ExactActivation::kGelu},
      {"gelu_tanh", ExactActivation::kGeluTanh}, {"quick_gelu", ExactActivation::kQuickGelu},
      {"selu", ExactActivation::kSelu},          {"silu", ExactActivation::kSilu},
  };
  const auto found = kKinds.find(name);
  if (found == kKinds.end()) return std::nullopt;
  return found->second;
}

ExactOperationPtr make_exact_activation(std::string_view name) {
  if (name == "softmax") return std::make_unique<SoftmaxActivation>();
  if (name == "prelu") return std::make_unique<PreluActivation>();
  const auto kind = exact_activation_of(name);
  return kind ? std::make_unique<ElementActivation>(*kind) : nullptr;
}

}  // namespace harmonics::inline in_runtime
