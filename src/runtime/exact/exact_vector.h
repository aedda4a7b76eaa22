// Vectors of kExactWidth floats: the few operations that the kernels are written in (private to
// runtime). Whoever includes this defines HARMONICS_EXACT_WIDTH and is compiled for an instruction
// set; everything has internal linkage, so that no such code is taken in by another file. Only
// operations that IEEE 754 rounds correctly are used, and the compiler may not contract them.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <cstdint>

namespace harmonics::inline in_runtime {
namespace {

constexpr std::int64_t kExactWidth = HARMONICS_EXACT_WIDTH;
/// Sums along rows run in so many lanes, whatever the width of vectors.
constexpr std::int64_t kExactLanes = 16;

using VecF = float __attribute__((vector_size(4 * HARMONICS_EXACT_WIDTH)));
using VecI = std::int32_t __attribute__((vector_size(4 * HARMONICS_EXACT_WIDTH)));
using VecU = std::uint32_t __attribute__((vector_size(4 * HARMONICS_EXACT_WIDTH)));

inline VecF all_of_one(float value) { return VecF{} + value; }
inline VecF load(const float* from) {
  VecF value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
inline void store(float* to, VecF value) { __builtin_memcpy(to, &value, sizeof value); }

/// The first `count` lanes; the others are 0.
inline VecF load_some(const float* from, std::int64_t count) {
  VecF value = {};
  __builtin_memcpy(&value, from, static_cast<unsigned long>(count) * sizeof(float));
  return value;
}
inline void store_some(float* to, VecF value, std::int64_t count) {
  __builtin_memcpy(to, &value, static_cast<unsigned long>(count) * sizeof(float));
}

/// `count` lanes, which may be all.
inline VecF load_up_to(const float* from, std::int64_t count) {
  return count == kExactWidth ? load(from) : load_some(from, count);
}
inline void store_up_to(float* to, VecF value, std::int64_t count) {
  if (count == kExactWidth) {
    store(to, value);
  } else {
    store_some(to, value, count);
  }
}

inline VecU bits_of(VecF value) { return reinterpret_cast<VecU>(value); }
inline VecF float_of(VecU bits) { return reinterpret_cast<VecF>(bits); }

/// a * b + c, rounded once.
inline VecF fused(VecF a, VecF b, VecF c) {
#if HARMONICS_EXACT_WIDTH == 16 && defined(__AVX512F__)
  return reinterpret_cast<VecF>(_mm512_fmadd_ps(
      reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif HARMONICS_EXACT_WIDTH == 8 && defined(__FMA__)
  return reinterpret_cast<VecF>(_mm256_fmadd_ps(
      reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#elif HARMONICS_EXACT_WIDTH == 4 && defined(__aarch64__)
  return reinterpret_cast<VecF>(vfmaq_f32(reinterpret_cast<float32x4_t>(c),
                                          reinterpret_cast<float32x4_t>(a),
                                          reinterpret_cast<float32x4_t>(b)));
#else
  VecF value = {};
  for (int i = 0; i < kExactWidth; ++i) value[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return value;
#endif
}
inline VecF fused(VecF a, VecF b, float c) { return fused(a, b, all_of_one(c)); }

inline VecF square_root(VecF x) {
#if HARMONICS_EXACT_WIDTH == 16 && defined(__AVX512F__)
  return reinterpret_cast<VecF>(_mm512_maskz_sqrt_ps(0xffff, reinterpret_cast<__m512>(x)));
#elif HARMONICS_EXACT_WIDTH == 8 && defined(__AVX2__)
  return reinterpret_cast<VecF>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#elif HARMONICS_EXACT_WIDTH == 4 && defined(__aarch64__)
  return reinterpret_cast<VecF>(vsqrtq_f32(reinterpret_cast<float32x4_t>(x)));
#else
  VecF value = {};
  for (int i = 0; i < kExactWidth; ++i) value[i] = __builtin_sqrtf(x[i]);
  return value;
#endif
}

/// `yes` where the mask is set, else `no`.
inline VecF chosen(VecI mask, VecF yes, VecF no) {
  const VecU set = reinterpret_cast<VecU>(mask);
  return float_of((bits_of(yes) & set) | (bits_of(no) & ~set));
}

/// y = f(x), element by element.
template <typename Function>
inline void map_one(std::int64_t count, const float* x, float* y, const Function& function) {
  std::int64_t i = 0;
  for (; i + kExactWidth <= count; i += kExactWidth) store(y + i, function(load(x + i)));
  if (i < count) store_some(y + i, function(load_some(x + i, count - i)), count - i);
}

/// y = f(a, b), element by element.
template <typename Function>
inline void map_two(std::int64_t count, const float* a, const float* b, float* y,
                    const Function& function) {
  std::int64_t i = 0;
  for (; i + kExactWidth <= count; i += kExactWidth) {
    store(y + i, function(load(a + i), load(b + i)));
  }
  if (i == count) return;
  const std::int64_t rest = count - i;
  store_some(y + i, function(load_some(a + i, rest), load_some(b + i, rest)), rest);
}

}  // namespace
}  // namespace harmonics::inline in_runtime
