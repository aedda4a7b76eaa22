#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/StreamGuard.h>

#include <cmath>
#include <numbers>

#include <harmonics/base/random.h>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// Mean over all axes but the first: one number per sample.
at::Tensor per_sample(const at::Tensor& elements) {
  return elements.dim() == 1 ? elements : elements.flatten(1).mean(1);
}

at::Tensor cross_entropy(const at::Tensor& prediction, const at::Tensor& target) {
  const at::Tensor logits = in_full(prediction);
  const at::Tensor log_likelihood = at::log_softmax(logits, -1);
  if (at::isFloatingType(target.scalar_type())) {
    return per_sample(-(log_likelihood * target.to(logits.scalar_type())).sum(-1));
  }
  at::Tensor ids = target.to(at::kLong);
  if (ids.dim() == prediction.dim()) ids = ids.squeeze(-1);
  const std::int64_t classes = prediction.size(-1);
  const at::Tensor losses = at::nll_loss(log_likelihood.reshape({-1, classes}), ids.reshape({-1}),
                                         {}, at::Reduction::None);
  return per_sample(losses.reshape(ids.sizes()));
}

at::Tensor mse(const at::Tensor& prediction, const at::Tensor& target) {
  const at::Tensor exact = in_full(prediction);
  return per_sample(at::mse_loss(exact, target.to(exact.scalar_type()), at::Reduction::None));
}

at::Tensor bce(const at::Tensor& prediction, const at::Tensor& target) {
  const at::Tensor exact = in_full(prediction);
  return per_sample(
      at::binary_cross_entropy(exact, target.to(exact.scalar_type()), {}, at::Reduction::None));
}

// Cross entropy of each row against the id of the row after it; the mean over the ids of a sample
// that are not below 0.
at::Tensor next_token(const at::Tensor& prediction, const at::Tensor& target) {
  const std::int64_t classes = prediction.size(-1);
  const at::Tensor logits = in_full(prediction).slice(1, 0, -1);
  const at::Tensor ids = target.to(at::kLong).slice(1, 1);
  const at::Tensor kept = ids.ge(0);
  constexpr std::int64_t kLeftOut = -100;
  const at::Tensor losses =
      at::nll_loss(at::log_softmax(logits, -1).reshape({-1, classes}),
                   ids.masked_fill(kept.logical_not(), kLeftOut).reshape({-1}), {},
                   at::Reduction::None, kLeftOut);
  return losses.reshape(ids.sizes()).sum(1) / kept.sum(1).clamp_min(1);
}

// On the CPU in the order of Hugging Face's gelu_new, whose bits it gives; fused on a GPU.
at::Tensor gelu_tanh(const at::Tensor& x) {
  if (x.is_cuda()) return at::gelu(x, "tanh");
  const double slope = std::sqrt(2.0 / std::numbers::pi);
  return 0.5 * x * (1.0 + at::tanh(slope * (x + 0.044715 * at::pow(x, 3.0))));
}

template <typename Function>
TorchActivation plain(Function function) {
  return [function](const at::Tensor& x, std::span<const at::Tensor>) { return function(x); };
}

}  // namespace

std::map<std::string, TorchLoss, std::less<>> builtin_losses() {
  return {{"cross_entropy", cross_entropy}, {"mse", mse}, {"bce", bce}, {"next_token", next_token}};
}

std::map<std::string, TorchActivation, std::less<>> builtin_activations() {
  return {
      {"relu", plain([](const at::Tensor& x) { return at::relu(x); })},
      {"sigmoid", plain([](const at::Tensor& x) { return at::sigmoid(x); })},
      {"tanh", plain([](const at::Tensor& x) { return at::tanh(x); })},
      {"gelu", plain([](const at::Tensor& x) { return at::gelu(x); })},
      {"gelu_tanh", plain(gelu_tanh)},
      {"quick_gelu", plain([](const at::Tensor& x) { return x * at::sigmoid(1.702 * x); })},
      {"selu", plain([](const at::Tensor& x) { return at::selu(x); })},
      {"silu", plain([](const at::Tensor& x) { return at::silu(x); })},
      {"softmax", plain([](const at::Tensor& x) { return at::softmax(in_full(x), -1); })},
      {"prelu",
       [](const at::Tensor& x, std::span<const at::Tensor> parameters) {
         return at::prelu(x, parameters[0].to(x.scalar_type()));
       }},
  };
}

std::map<std::string, TorchActivation, std::less<>> builtin_activations_in_place() {
  return {
      {"relu", plain([](at::Tensor x) { return at::relu_(x); })},
      {"sigmoid", plain([](at::Tensor x) { return at::sigmoid_(x); })},
      {"tanh", plain([](at::Tensor x) { return at::tanh_(x); })},
      {"gelu", plain([](at::Tensor x) { return at::gelu_(x); })},
      {"selu", plain([](at::Tensor x) { return at::selu_(x); })},
      {"silu", plain([](at::Tensor x) { return at::silu_(x); })},
  };
}

at::Tensor dropout_mask(at::IntArrayRef sizes, double p, const LayerCall& call) {
  at::Tensor mask = at::empty(sizes, at::kFloat);
  const std::int64_t rows = mask.size(0);
  const std::int64_t row_size = rows == 0 ? 0 : mask.numel() / rows;
  const auto threshold = static_cast<std::uint32_t>(p * 4294967296.0);
  const auto keep = static_cast<float>(1.0 / (1.0 - p));
  auto* values = mask.data_ptr<float>();
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint32_t> numbers(static_cast<std::size_t>(row_size));
    for (std::int64_t row = begin; row < end; ++row) {
      fill_random(call.key, static_cast<std::uint32_t>(call.first_sample + row), call.step,
                  numbers);
      float* to = values + row * row_size;
      for (std::int64_t i = 0; i < row_size; ++i) to[i] = numbers[i] < threshold ? 0.0f : keep;
    }
  });
  return mask;
}

at::Tensor counter_dropout(const at::Tensor& input, double p, const LayerCall& call) {
  if (call.draws == nullptr) {
    return input * dropout_mask(input.sizes(), p, call).to(input.options());
  }
  {
    // Beside the memory of what is recorded, which earlier pieces of the pass may use as well.
    const c10::StreamGuard beside(c10::Stream(c10::Stream::DEFAULT, input.device()));
    call.draws->push_back({at::empty(input.sizes(), input.options()), p, call.key});
  }
  return input * call.draws->back().mask;
}

}  // namespace harmonics::inline in_runtime
