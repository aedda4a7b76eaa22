// Packed blocks many numbers at a time, where the machine has the instructions.
//
// A small whole number times a scale of 11 bits is exact in float32, so that no order of these
// steps rounds differently from the plain one.
#include <bit>
#include <cstring>

#include "unpack.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace harmonics::inline in_models {
namespace {

constexpr std::size_t kWideBlock = 32;

#if defined(__x86_64__)
#define HARMONICS_WIDE [[gnu::target("avx512f,avx2,fma,f16c")]]
#define HARMONICS_HALF [[gnu::target("avx2,fma,f16c")]]

bool has_half_wide() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("f16c");
  return has;
}

bool has_wide() {
  static const bool has = has_half_wide() && __builtin_cpu_supports("avx512f");
  return has;
}

HARMONICS_HALF inline float wide_half(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return _cvtsh_ss(bits);
}

HARMONICS_HALF inline __m128i sixteen(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

// Sixteen small numbers as float32.
HARMONICS_WIDE inline __m512 numbers_512(__m128i whole) {
  return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, whole));
}

HARMONICS_WIDE inline void scale_512(__m128i whole, float scale, float* out) {
  _mm512_storeu_ps(out, _mm512_mul_ps(numbers_512(whole), _mm512_set1_ps(scale)));
}

HARMONICS_WIDE inline void stretch_512(__m128i whole, float scale, float least, float* out) {
  _mm512_storeu_ps(
      out, _mm512_fmadd_ps(numbers_512(whole), _mm512_set1_ps(scale), _mm512_set1_ps(least)));
}

// Eight of them.
HARMONICS_HALF inline __m256 numbers_256(__m128i whole) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(whole));
}

HARMONICS_HALF inline void scale_256(__m128i whole, float scale, float* out) {
  const __m256 factor = _mm256_set1_ps(scale);
  _mm256_storeu_ps(out, _mm256_mul_ps(numbers_256(whole), factor));
  _mm256_storeu_ps(out + 8, _mm256_mul_ps(numbers_256(_mm_srli_si128(whole, 8)), factor));
}

HARMONICS_HALF inline void stretch_256(__m128i whole, float scale, float least, float* out) {
  const __m256 factor = _mm256_set1_ps(scale), summand = _mm256_set1_ps(least);
  _mm256_storeu_ps(out, _mm256_fmadd_ps(numbers_256(whole), factor, summand));
  _mm256_storeu_ps(out + 8,
                   _mm256_fmadd_ps(numbers_256(_mm_srli_si128(whole, 8)), factor, summand));
}

HARMONICS_HALF inline __m128i low_halves(__m128i pairs) {
  return _mm_and_si128(pairs, _mm_set1_epi8(15));
}

HARMONICS_WIDE void unpack_512(Packing packing, const std::byte* from, std::span<float> out) {
  const std::int64_t bytes = packing_size(packing).bytes;
  const __m128i eight = _mm_set1_epi8(8);
  for (std::size_t at = 0; at < out.size(); at += kWideBlock, from += bytes) {
    float* const to = out.data() + at;
    const float scale = wide_half(from);
    if (packing == Packing::kQ8_0) {
      scale_512(sixteen(from + 2), scale, to);
      scale_512(sixteen(from + 18), scale, to + 16);
      continue;
    }
    const __m128i pairs = sixteen(from + (packing == Packing::kQ4_1 ? 4 : 2));
    const __m128i first = low_halves(pairs), second = low_halves(_mm_srli_epi16(pairs, 4));
    if (packing == Packing::kQ4_0) {
      scale_512(_mm_sub_epi8(first, eight), scale, to);
      scale_512(_mm_sub_epi8(second, eight), scale, to + 16);
    } else {
      stretch_512(first, scale, wide_half(from + 2), to);
      stretch_512(second, scale, wide_half(from + 2), to + 16);
    }
  }
}

HARMONICS_HALF void unpack_256(Packing packing, const std::byte* from, std::span<float> out) {
  const std::int64_t bytes = packing_size(packing).bytes;
  const __m128i eight = _mm_set1_epi8(8);
  for (std::size_t at = 0; at < out.size(); at += kWideBlock, from += bytes) {
    float* const to = out.data() + at;
    const float scale = wide_half(from);
    if (packing == Packing::kQ8_0) {
      scale_256(sixteen(from + 2), scale, to);
      scale_256(sixteen(from + 18), scale, to + 16);
      continue;
    }
    const __m128i pairs = sixteen(from + (packing == Packing::kQ4_1 ? 4 : 2));
    const __m128i first = low_halves(pairs), second = low_halves(_mm_srli_epi16(pairs, 4));
    if (packing == Packing::kQ4_0) {
      scale_256(_mm_sub_epi8(first, eight), scale, to);
      scale_256(_mm_sub_epi8(second, eight), scale, to + 16);
    } else {
      stretch_256(first, scale, wide_half(from + 2), to);
      stretch_256(second, scale, wide_half(from + 2), to + 16);
    }
  }
}

HARMONICS_HALF std::size_t widen_halves(const std::byte* from, std::span<float> out) {
  std::size_t i = 0;
  for (; i + 8 <= out.size(); i += 8) {
    _mm256_storeu_ps(out.data() + i, _mm256_cvtph_ps(sixteen(from + 2 * i)));
  }
  return i;
}

#undef HARMONICS_WIDE
#undef HARMONICS_HALF
#endif

}  // namespace

bool unpack_wide(Packing packing, ByteSpan blocks, std::span<float> out) {
#if defined(__x86_64__)
  const bool known =
      packing == Packing::kQ8_0 || packing == Packing::kQ4_0 || packing == Packing::kQ4_1;
  if (known && has_wide()) {
    unpack_512(packing, blocks.data(), out);
    return true;
  }
  if (known && has_half_wide()) {
    unpack_256(packing, blocks.data(), out);
    return true;
  }
#endif
  (void)packing, (void)blocks, (void)out;
  return false;
}

void widen(const std::byte* from, bool halves, std::span<float> out) {
  std::size_t i = 0;
#if defined(__x86_64__)
  if (halves && has_half_wide()) i = widen_halves(from, out);
#endif
  for (; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    out[i] =
        halves ? half_value(bits) : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
}

}  // namespace harmonics::inline in_models
