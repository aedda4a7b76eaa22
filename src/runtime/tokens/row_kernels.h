// Arithmetic on rows of numbers whose bits depend on the row alone (private to runtime_tokens).
//
// A sum of products runs in 16 lanes, number i in lane i mod 16, each lane from first to last with
// one rounding per step (fma); then lanes 8 apart are added, 4 apart, 2 apart, 1 apart. Nothing
// depends on how many other rows there are, on the instruction set or on threads.
#pragma once

#include <cstddef>

namespace harmonics::inline in_runtime {

/// Rows of float32, `stride` numbers apart.
struct RowsView {
  const float* data = nullptr;
  std::size_t rows = 0;
  std::size_t stride = 0;
};

/// y[r * y_stride + o] = sum of x[r] * w[o] over `length` numbers.
void products(const RowsView& x, const RowsView& w, std::size_t length, float* y,
              std::size_t y_stride);

/// The sum of numbers, in the same lanes.
[[nodiscard]] float sum_of(const float* x, std::size_t length);

/// y += the sum of factors[r] * x[r], row after row, one rounding each.
void add_weighted(const RowsView& x, const float* factors, float* y, std::size_t length);

/// Softmax in place.
void softmax(float* x, std::size_t length);

/// weight * (x / sqrt(mean of squares + eps)).
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;  // layer_norm alone
  float eps = 0;
};
void rms_norm(const float* x, const NormWeights& norm, std::size_t length, float* y);
/// (x - mean) / sqrt(variance + eps) * weight + bias.
void layer_norm(const float* x, const NormWeights& norm, std::size_t length, float* y);

// In place.
void apply_silu(float* x, std::size_t length);
void apply_sigmoid(float* x, std::size_t length);
void apply_tanh(float* x, std::size_t length);
void apply_gelu(float* x, std::size_t length);
void apply_gelu_tanh(float* x, std::size_t length);
void apply_relu(float* x, std::size_t length);

/// "avx512", "avx2" or "plain": what products() uses here. All give the same bits.
[[nodiscard]] const char* kernel_name();
/// For tests: products() from now on by this one; null: the best that this machine has.
void choose_kernel(const char* name);

}  // namespace harmonics::inline in_runtime
