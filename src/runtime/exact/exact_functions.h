// exp, log, tanh, erf and 1/sqrt in float32, at most 2 ulp for every float (private to runtime).
//
// Polynomials are evaluated by Horner's rule, each step one fused multiply-add. The coefficients
// are near-minimax fits over the intervals named here, rounded to float32. The page
// docs/formats/reproducible.md lists every step; exact_functions_test.cc measures the errors.
#pragma once

#include "exact_vector.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr float kLn2High = 0x1.62e4p-1F;  // its last nine bits are 0: products with n are exact
constexpr float kLn2Low = 0x1.7f7d1cp-20F;
constexpr float kLog2E = 0x1.715476p+0F;
/// 1.5 * 2^23: adding it rounds to a whole number, which the low bits then hold.
constexpr float kRounder = 0x1.8p+23F;

/// c[0] + c[1] x + … + c[n-1] x^(n-1).
template <int count>
inline VecF polynomial(VecF x, const float (&c)[count]) {
  VecF sum = all_of_one(c[count - 1]);
#pragma GCC unroll 16
  for (int i = count - 2; i >= 0; --i) sum = fused(sum, x, c[i]);
  return sum;
}

/// 2 to the power of n, n in [-126, 127].
inline VecF power_of_two(VecI n) { return float_of(reinterpret_cast<VecU>(n + 127) << 23); }

/// e to the power of x: x = n ln 2 + r, |r| <= ln 2 / 2.
inline VecF exact_exp(VecF x) {
  constexpr float kTerms[] = {0.5F,           0x1.555556p-3F,  0x1.5554e4p-5F,
                              0x1.1110e0p-7F, 0x1.6d4920p-10F, 0x1.a12a42p-13F};
  x = chosen(x > 89.0F, all_of_one(89.0F), x);
  x = chosen(x < -105.0F, all_of_one(-105.0F), x);
  const VecF shifted = fused(x, all_of_one(kLog2E), kRounder);
  const VecF n = shifted - kRounder;
  VecF r = fused(n, all_of_one(-kLn2High), x);
  r = fused(n, all_of_one(-kLn2Low), r);
  const VecF near_one = 1.0F + fused(polynomial(r, kTerms), r * r, r);
  const VecI whole = reinterpret_cast<VecI>(bits_of(shifted) - bits_of(all_of_one(kRounder)));
  const VecI half = whole >> 1;  // two steps: 2^n alone may lie beyond the floats
  return near_one * power_of_two(half) * power_of_two(whole - half);
}

/// The natural logarithm: x = 2^n (1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
inline VecF exact_log(VecF x) {
  constexpr float kTerms[] = {0x1.555556p-2F, -0x1.fffff2p-3F, 0x1.9999a8p-3F, -0x1.555c54p-3F,
                              0x1.249688p-3F, -0x1.fdfb80p-4F, 0x1.c41b88p-4F, -0x1.b41174p-4F,
                              0x1.af5848p-4F, -0x1.fc0714p-5F};
  const VecI tiny = x < 0x1p-126F;
  const VecF scaled = chosen(tiny, x * 0x1p+23F, x);
  // Below sqrt(1/2) the mantissa counts to the next power.
  const VecU offset = bits_of(scaled) - 0x3f3504f3U;
  const VecI whole = reinterpret_cast<VecI>(offset) >> 23;
  const VecF mantissa = float_of((offset & 0x007fffffU) + 0x3f3504f3U);
  const VecF f = mantissa - 1.0F;
  const VecI power = whole - (tiny & 23);
  const VecF n = __builtin_convertvector(power, VecF);
  const VecF square = f * f;
  const VecF tail = fused(f, polynomial(f, kTerms), -0.5F);
  const VecF low = fused(n, all_of_one(kLn2Low), square * tail);
  VecF y = fused(n, all_of_one(kLn2High), f + low);
  y = chosen(x == __builtin_inff(), x, y);
  y = chosen(x == 0.0F, all_of_one(-__builtin_inff()), y);
  // Below 0, and what is no number.
  return chosen(x >= 0.0F, y, all_of_one(__builtin_nanf("")));
}

/// tanh: a polynomial up to 0.8, 1 - 2 / (exp(2|x|) + 1) beyond.
inline VecF exact_tanh(VecF x) {
  constexpr float kTerms[] = {-0x1.555556p-2F, 0x1.1110f4p-3F, -0x1.ba105ep-5F, 0x1.657652p-6F,
                              -0x1.1a7ebap-7F, 0x1.87849cp-9F, -0x1.4caed2p-11F};
  const VecU sign = bits_of(x) & 0x80000000U;
  const VecF size = float_of(bits_of(x) ^ sign);
  const VecF square = x * x;
  const VecF inner = fused(polynomial(square, kTerms), square * x, x);
  const VecF outer = 1.0F - 2.0F / (exact_exp(size + size) + 1.0F);
  return chosen(size < 0.8F, inner, float_of(bits_of(outer) | sign));
}

/// erf: a polynomial up to 1, 1 - exp(-g(|x|)) beyond, g = -log(erfc).
inline VecF exact_erf(VecF x) {
  constexpr float kInner[] = {0x1.06eba8p-3F, -0x1.812746p-2F,  0x1.ce2f08p-4F,  -0x1.b829c8p-6F,
                              0x1.562a60p-8F, -0x1.bccf66p-11F, 0x1.d88750p-14F, -0x1.445f48p-17F};
  constexpr float kOuter[] = {-0x1.b48d86p-12F, 0x1.2173eep+0F, 0x1.430c46p-1F,   0x1.c6e1a0p-4F,
                              -0x1.bbffa4p-6F,  0x1.4befb6p-8F, -0x1.679370p-11F, 0x1.054c58p-14F,
                              -0x1.bdd436p-19F, 0x1.45ac78p-24F};
  const VecU sign = bits_of(x) & 0x80000000U;
  VecF size = float_of(bits_of(x) ^ sign);
  const VecF inner = fused(polynomial(x * x, kInner), x, x);
  size = chosen(size > 4.0F, all_of_one(4.0F), size);
  const VecF outer = 1.0F - exact_exp(-polynomial(size, kOuter));
  return chosen(size < 1.0F, inner, float_of(bits_of(outer) | sign));
}

inline VecF exact_rsqrt(VecF x) { return 1.0F / square_root(x); }

inline VecF exact_sigmoid(VecF x) { return 1.0F / (1.0F + exact_exp(-x)); }

}  // namespace
}  // namespace harmonics::inline in_runtime
