// What looks at each element alone: activations and their slopes, updates of weights (private to
// runtime).
#pragma once

#include "exact_functions.h"
#include "exact_kernels.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr float kSqrtHalf = 0x1.6a09e6p-1F;       // 1 / sqrt(2)
constexpr float kNormalDensity = 0x1.988454p-2F;  // 1 / sqrt(2 pi)
constexpr float kGeluSlope = 0x1.988454p-1F;      // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;
constexpr float kQuickSlope = 1.702F;
constexpr float kSeluScale = 1.0507009873554805F;
constexpr float kSeluAlpha = 1.6732632423543772F;

inline VecF relu_of(VecF x) { return chosen(x < 0.0F, VecF{}, x); }
inline VecF relu_slope(VecF x) { return chosen(x > 0.0F, all_of_one(1.0F), VecF{}); }

inline VecF sigmoid_slope(VecF x) {
  const VecF s = exact_sigmoid(x);
  return s * (1.0F - s);
}

inline VecF tanh_slope(VecF x) {
  const VecF t = exact_tanh(x);
  return fused(-t, t, 1.0F);
}

inline VecF gelu_of(VecF x) { return 0.5F * x * (1.0F + exact_erf(x * kSqrtHalf)); }
inline VecF gelu_slope(VecF x) {
  const VecF below = 0.5F * (1.0F + exact_erf(x * kSqrtHalf));
  const VecF density = kNormalDensity * exact_exp(-0.5F * (x * x));
  return fused(x, density, below);
}

inline VecF gelu_tanh_inner(VecF x) {
  return exact_tanh(kGeluSlope * fused(kGeluCube * (x * x), x, x));
}
inline VecF gelu_tanh_of(VecF x) { return 0.5F * x * (1.0F + gelu_tanh_inner(x)); }
inline VecF gelu_tanh_slope(VecF x) {
  const VecF t = gelu_tanh_inner(x);
  const VecF steep = kGeluSlope * fused(all_of_one(3.0F * kGeluCube), x * x, 1.0F);
  return fused(0.5F * x * fused(-t, t, 1.0F), steep, 0.5F * (1.0F + t));
}

inline VecF quick_gelu_of(VecF x) { return x * exact_sigmoid(kQuickSlope * x); }
inline VecF quick_gelu_slope(VecF x) {
  const VecF s = exact_sigmoid(kQuickSlope * x);
  return fused(kQuickSlope * x, s * (1.0F - s), s);
}

inline VecF selu_of(VecF x) {
  const VecF below = kSeluAlpha * (exact_exp(x) - 1.0F);
  return kSeluScale * chosen(x > 0.0F, x, below);
}
inline VecF selu_slope(VecF x) {
  return kSeluScale * chosen(x > 0.0F, all_of_one(1.0F), kSeluAlpha * exact_exp(x));
}

inline VecF silu_of(VecF x) { return x * exact_sigmoid(x); }
inline VecF silu_slope(VecF x) {
  const VecF s = exact_sigmoid(x);
  return s * fused(x, 1.0F - s, 1.0F);
}

inline void exact_map(ExactFunction function, std::int64_t count, const float* x, float* y) {
  switch (function) {
    case ExactFunction::kExp: return map_one(count, x, y, exact_exp);
    case ExactFunction::kLog: return map_one(count, x, y, exact_log);
    case ExactFunction::kTanh: return map_one(count, x, y, exact_tanh);
    case ExactFunction::kErf: return map_one(count, x, y, exact_erf);
    case ExactFunction::kRsqrt: return map_one(count, x, y, exact_rsqrt);
    case ExactFunction::kSqrt: return map_one(count, x, y, square_root);
    case ExactFunction::kReciprocal:
      return map_one(count, x, y, [](VecF value) { return 1.0F / value; });
  }
}

inline void exact_activate(ExactActivation kind, std::int64_t count, const float* x, float* y) {
  switch (kind) {
    case ExactActivation::kRelu: return map_one(count, x, y, relu_of);
    case ExactActivation::kSigmoid: return map_one(count, x, y, exact_sigmoid);
    case ExactActivation::kTanh: return map_one(count, x, y, exact_tanh);
    case ExactActivation::kGelu: return map_one(count, x, y, gelu_of);
    case ExactActivation::kGeluTanh: return map_one(count, x, y, gelu_tanh_of);
    case ExactActivation::kQuickGelu: return map_one(count, x, y, quick_gelu_of);
    case ExactActivation::kSelu: return map_one(count, x, y, selu_of);
    case ExactActivation::kSilu: return map_one(count, x, y, silu_of);
  }
}

template <typename Slope>
inline void times_slope(std::int64_t count, const float* x, const float* gradient, float* y,
                        const Slope& slope) {
  map_two(count, x, gradient, y, [&](VecF at, VecF g) { return g * slope(at); });
}

inline void exact_activate_back(ExactActivation kind, std::int64_t count, const float* x,
                                const float* gradient, float* y) {
  switch (kind) {
    case ExactActivation::kRelu: return times_slope(count, x, gradient, y, relu_slope);
    case ExactActivation::kSigmoid: return times_slope(count, x, gradient, y, sigmoid_slope);
    case ExactActivation::kTanh: return times_slope(count, x, gradient, y, tanh_slope);
    case ExactActivation::kGelu: return times_slope(count, x, gradient, y, gelu_slope);
    case ExactActivation::kGeluTanh: return times_slope(count, x, gradient, y, gelu_tanh_slope);
    case ExactActivation::kQuickGelu: return times_slope(count, x, gradient, y, quick_gelu_slope);
    case ExactActivation::kSelu: return times_slope(count, x, gradient, y, selu_slope);
    case ExactActivation::kSilu: return times_slope(count, x, gradient, y, silu_slope);
  }
}

inline void exact_add(std::int64_t count, const float* a, const float* b, float* y) {
  map_two(count, a, b, y, [](VecF one, VecF other) { return one + other; });
}
inline void exact_times(std::int64_t count, const float* a, const float* b, float* y) {
  map_two(count, a, b, y, [](VecF one, VecF other) { return one * other; });
}
inline void exact_scale(std::int64_t count, const float* x, float factor, float* y) {
  map_one(count, x, y, [=](VecF value) { return value * factor; });
}

inline void exact_normalize(std::int64_t count, const float* x, const float* four, float* y) {
  const float mean = four[0], scale = four[1];
  const VecF weight = all_of_one(four[2]), bias = all_of_one(four[3]);
  map_one(count, x, y, [=](VecF v) { return fused((v - mean) * scale, weight, bias); });
}

inline void exact_normalize_back(std::int64_t count, const float* x, const float* gradient,
                                 const float* five, float* y) {
  const float at = five[0], scale = five[1], mean = five[2], factor = five[4];
  const VecF slope = all_of_one(five[3]);
  map_two(count, x, gradient, y,
          [=](VecF v, VecF g) { return factor * fused(-((v - at) * scale), slope, g - mean); });
}

/// The gradient that an update uses: scaled, and with the decay of the weight.
inline VecF used_gradient(const ExactUpdate& u, VecF value, VecF gradient) {
  return fused(all_of_one(u.decay), value, gradient * u.factor);
}

inline void exact_sgd(const ExactUpdate& u) {
  const VecF back = all_of_one(-u.rate);
  map_two(u.count, u.value, u.gradient, u.value,
          [&](VecF value, VecF g) { return fused(back, used_gradient(u, value, g), value); });
}

/// Takes `step` over vectors of value, gradient and the slots, which it changes.
template <typename Step>
inline void each_weight(const ExactUpdate& u, const Step& step) {
  for (std::int64_t i = 0; i < u.count; i += kExactWidth) {
    const std::int64_t left = u.count - i, count = left < kExactWidth ? left : kExactWidth;
    VecF value = load_up_to(u.value + i, count), first = load_up_to(u.first + i, count);
    VecF second = u.second == nullptr ? VecF{} : load_up_to(u.second + i, count);
    step(value, load_up_to(u.gradient + i, count), first, second);
    store_up_to(u.value + i, value, count);
    store_up_to(u.first + i, first, count);
    if (u.second != nullptr) store_up_to(u.second + i, second, count);
  }
}

inline void exact_sgd_momentum(const ExactUpdate& u) {
  const VecF back = all_of_one(-u.rate), momentum = all_of_one(u.momentum);
  each_weight(u, [&](VecF& value, VecF gradient, VecF& first, VecF&) {
    first = fused(momentum, first, used_gradient(u, value, gradient));
    value = fused(back, first, value);
  });
}

inline void exact_adam(const ExactUpdate& u) {
  const VecF keep1 = all_of_one(u.beta1), keep2 = all_of_one(u.beta2);
  const VecF take1 = all_of_one(1.0F - u.beta1), take2 = all_of_one(1.0F - u.beta2);
  each_weight(u, [&](VecF& value, VecF gradient, VecF& mean, VecF& square) {
    const VecF g = used_gradient(u, value, gradient);
    mean = fused(take1, g, keep1 * mean);
    square = fused(take2, g * g, keep2 * square);
    const VecF width = square_root(square) / u.square_root + u.epsilon;
    value = fused(all_of_one(-u.rate), mean / width, value * u.shrink);
  });
}

}  // namespace
}  // namespace harmonics::inline in_runtime
