#include "exact_linear.h"

#include <algorithm>
#include <cstring>

#include "exact_operation.h"
#include "exact_threads.h"

namespace harmonics::inline in_runtime {

Tensor linear_forward(const ExactKernels& kernels, const Tensor& x, const Tensor& weight,
                      const Tensor& bias) {
  const std::int64_t in = x.shape().back(), out = weight.shape()[0];
  const std::int64_t rows = in == 0 ? 0 : x.size() / in;
  Shape shape = x.shape();
  shape.back() = out;
  Tensor y = bias.defined() ? Tensor::empty(shape) : Tensor::zeros(shape);
  float* const to = own_numbers(y);
  for (std::int64_t r = 0; bias.defined() && r < rows; ++r) {
    std::memcpy(to + r * out, numbers_of(bias), static_cast<std::size_t>(out) * sizeof(float));
  }
  multiply_in_threads(kernels,
                      {rows, out, in, numbers_of(x), in, 1, numbers_of(weight), 1, in, to, out});
  return y;
}

Tensor linear_back(const ExactKernels& kernels, const Tensor& gradient, const Tensor& weight) {
  const std::int64_t out = weight.shape()[0], in = weight.shape()[1];
  const std::int64_t rows = gradient.size() / out;
  Shape shape = gradient.shape();
  shape.back() = in;
  Tensor answer = Tensor::zeros(shape);
  multiply_in_threads(kernels, {rows, in, out, numbers_of(gradient), out, 1, numbers_of(weight), in,
                                1, own_numbers(answer), in});
  return answer;
}

void linear_gradients(const ExactKernels& kernels, const Tensor& x, const Tensor& gradient,
                      const Tensor& to_weight, const Tensor& to_bias) {
  const std::int64_t in = x.shape().back(), out = gradient.shape().back();
  const std::int64_t rows = in == 0 ? 0 : x.size() / in;
  const float* const g = numbers_of(gradient);
  multiply_in_threads(kernels,
                      {out, in, rows, g, 1, out, numbers_of(x), in, 1, own_numbers(to_weight), in});
  if (to_bias.defined()) kernels.add_rows(rows, out, g, out, own_numbers(to_bias));
}

}  // namespace harmonics::inline in_runtime
