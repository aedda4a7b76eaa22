// Norms, softmax and activations of one row. Compiled without contraction: what is rounded once
// says fma, so that every instruction set gives the same bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "row_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define HARMONICS_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HARMONICS_CLONES
#endif

namespace harmonics::inline in_runtime {
namespace {

constexpr std::size_t kSumLanes = 16;

// e^x for x within [-87, 88], outside of which it stays at the ends; within two units in the last
// place.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to whole numbers
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float n = __builtin_fmaf(x, 1.44269504f, kShift) - kShift;
  float r = __builtin_fmaf(n, -0.693359375f, x);
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = __builtin_fmaf(p, r, 1.3981999507e-3f);
  p = __builtin_fmaf(p, r, 8.3334519073e-3f);
  p = __builtin_fmaf(p, r, 4.1665795894e-2f);
  p = __builtin_fmaf(p, r, 1.6666665459e-1f);
  p = __builtin_fmaf(p, r, 5.0000001201e-1f);
  p = __builtin_fmaf(p * r, r, r) + 1.0f;
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}

HARMONICS_CLONES void exponentials(float* x, std::size_t length, float largest) {
  for (std::size_t i = 0; i < length; ++i) {
    const float below = x[i] - largest;
    x[i] = below < -87.0f ? 0.0f : exponential(below);
  }
}

HARMONICS_CLONES void divide(float* x, std::size_t length, float by) {
  for (std::size_t i = 0; i < length; ++i) x[i] = x[i] / by;
}

}  // namespace

HARMONICS_CLONES float sum_of(const float* x, std::size_t length) {
  float lanes[kSumLanes] = {};
  std::size_t i = 0;
  for (; i + kSumLanes <= length; i += kSumLanes) {
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) lanes[lane] += x[i + lane];
  }
  for (std::size_t lane = 0; i + lane < length; ++lane) lanes[lane] += x[i + lane];
  for (std::size_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

HARMONICS_CLONES void add_weighted(const RowsView& x, const float* factors, float* y,
                                   std::size_t length) {
  for (std::size_t row = 0; row < x.rows; ++row) {
    const float* const own = x.data + row * x.stride;
    const float factor = factors[row];
    for (std::size_t i = 0; i < length; ++i) y[i] = __builtin_fmaf(factor, own[i], y[i]);
  }
}

void softmax(float* x, std::size_t length) {
  if (length == 0) return;
  exponentials(x, length, *std::max_element(x, x + length));
  divide(x, length, sum_of(x, length));
}

HARMONICS_CLONES void rms_norm(const float* x, const NormWeights& norm, std::size_t length,
                               float* y) {
  float squares = 0;
  products({x, 1, length}, {x, 1, length}, length, &squares, 1);
  const float factor = 1.0f / std::sqrt(squares / static_cast<float>(length) + norm.eps);
  for (std::size_t i = 0; i < length; ++i) y[i] = norm.weight[i] * (x[i] * factor);
}

HARMONICS_CLONES void layer_norm(const float* x, const NormWeights& norm, std::size_t length,
                                 float* y) {
  const float mean = sum_of(x, length) / static_cast<float>(length);
  for (std::size_t i = 0; i < length; ++i) y[i] = x[i] - mean;
  float squares = 0;
  products({y, 1, length}, {y, 1, length}, length, &squares, 1);
  const float factor = 1.0f / std::sqrt(squares / static_cast<float>(length) + norm.eps);
  for (std::size_t i = 0; i < length; ++i) {
    y[i] = __builtin_fmaf(y[i] * factor, norm.weight[i], norm.bias[i]);
  }
}

HARMONICS_CLONES void apply_silu(float* x, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) x[i] = x[i] / (1.0f + exponential(-x[i]));
}

HARMONICS_CLONES void apply_sigmoid(float* x, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) x[i] = 1.0f / (1.0f + exponential(-x[i]));
}

HARMONICS_CLONES void apply_tanh(float* x, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) x[i] = 1.0f - 2.0f / (1.0f + exponential(2.0f * x[i]));
}

void apply_gelu(float* x, std::size_t length) {
  constexpr float kRootHalf = 0.70710678f;
  for (std::size_t i = 0; i < length; ++i) x[i] = x[i] * 0.5f * (1.0f + std::erf(x[i] * kRootHalf));
}

HARMONICS_CLONES void apply_gelu_tanh(float* x, std::size_t length) {
  constexpr float kFactor = 0.79788456f, kCube = 0.044715f;
  for (std::size_t i = 0; i < length; ++i) {
    const float inner = kFactor * (x[i] + kCube * (x[i] * x[i] * x[i]));
    const float tanh = 1.0f - 2.0f / (1.0f + exponential(2.0f * inner));
    x[i] = 0.5f * x[i] * (1.0f + tanh);
  }
}

void apply_relu(float* x, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) x[i] = std::max(x[i], 0.0f);
}

}  // namespace harmonics::inline in_runtime
