#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <harmonics/base/random.h>

#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// Mean over all axes but the first: one number per sample.
at::Tensor per_sample(const at::Tensor& elements) {
  return elements.dim() == 1 ? elements : elements.flatten(1).mean(1);
}

at::Tensor in_full(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kHalf || type == at::kBFloat16 ? tensor.to(at::kFloat) : tensor;
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

template <typename Function>
TorchActivation plain(Function function) {
  return [function](const at::Tensor& x, std::span<const at::Tensor>) { return function(x); };
}

}  // namespace

std::map<std::string, TorchLoss, std::less<>> builtin_losses() {
  return {{"cross_entropy", cross_entropy}, {"mse", mse}, {"bce", bce}};
}

std::map<std::string, TorchActivation, std::less<>> builtin_activations() {
  return {
      {"relu", plain([](const at::Tensor& x) { return at::relu(x); })},
      {"sigmoid", plain([](const at::Tensor& x) { return at::sigmoid(x); })},
      {"tanh", plain([](const at::Tensor& x) { return at::tanh(x); })},
      {"gelu", plain([](const at::Tensor& x) { return at::gelu(x); })},
      {"selu", plain([](const at::Tensor& x) { return at::selu(x); })},
      {"silu", plain([](const at::Tensor& x) { return at::silu(x); })},
      {"softmax", plain([](const at::Tensor& x) { return at::softmax(in_full(x), -1); })},
      {"prelu",
       [](const at::Tensor& x, std::span<const at::Tensor> parameters) {
         return at::prelu(x, parameters[0].to(x.scalar_type()));
       }},
  };
}

at::Tensor counter_dropout(const at::Tensor& input, double p, const LayerCall& call) {
  const std::int64_t rows = input.size(0);
  const std::int64_t row_size = rows == 0 ? 0 : input.numel() / rows;
  const auto threshold = static_cast<std::uint32_t>(p * 4294967296.0);
  const auto keep = static_cast<float>(1.0 / (1.0 - p));
  at::Tensor mask = at::empty(input.sizes(), at::kFloat);
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
  return input * mask.to(input.options());
}

}  // namespace harmonics::inline in_runtime
