// Packed rows are unpacked in registers, thirty-two numbers at a time, and multiplied there.
//
// A small whole number times a scale of 11 bits is exact in float32, so the numbers have the bits
// that unpacking gives; the lanes and their order are those of row_products.cc.
#include "packed_products.h"

#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace harmonics::inline in_runtime {
namespace {

#if defined(__x86_64__)

#define HARMONICS_WIDE gnu::target("avx512f,avx2,fma,f16c")
#define HARMONICS_HALF gnu::target("avx2,fma,f16c")
// Sums live in registers only where loops over them are written out.
#define HARMONICS_UNROLL _Pragma("GCC unroll 8")

constexpr std::size_t kBlock = 32;
// Tiles whose bytes are asked for ahead: the row's own stream is too short for the machine to see.
constexpr std::size_t kTilesAhead = 4;
constexpr std::size_t kLine = 64;
constexpr __mmask16 kAll = 0xffff;  // g++ 12 warns of its own header's plain forms

struct PackedTile {
  const float* x;
  std::size_t x_stride;
  const std::byte* const* rows;
  std::size_t row_bytes;
  std::size_t blocks;
  float* y;
  std::size_t y_stride;
};

template <typename T>
[[gnu::always_inline]] inline T loaded(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

[[HARMONICS_HALF, gnu::always_inline]] inline __m128i sixteen_bytes(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
[[HARMONICS_HALF, gnu::always_inline]] inline __m256i sixteen_shorts(const std::byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
[[HARMONICS_WIDE, gnu::always_inline]] inline __m512 wide_scale(std::int16_t half) {
  return _mm512_maskz_cvtph_ps(kAll, _mm256_set1_epi16(half));
}
[[HARMONICS_WIDE, gnu::always_inline]] inline __m512 wide_bytes(const std::byte* at) {
  return _mm512_maskz_cvtepi32_ps(kAll, _mm512_maskz_cvtepi8_epi32(kAll, sixteen_bytes(at)));
}
// Sixteen numbers by half a byte each: low halves, then high ones.
[[HARMONICS_WIDE, gnu::always_inline]] inline void wide_looked_up(const std::byte* at, __m512 table,
                                                                  __m512 (&out)[2]) {
  const __m512i pairs = _mm512_maskz_cvtepu8_epi32(kAll, sixteen_bytes(at));
  out[0] = _mm512_maskz_permutexvar_ps(kAll, pairs, table);
  out[1] = _mm512_maskz_permutexvar_ps(kAll, _mm512_maskz_srli_epi32(kAll, pairs, 4), table);
}
[[HARMONICS_HALF, gnu::always_inline]] inline __m256 half_bytes(__m128i eight) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
}
// Thirty-two halves of bytes as four times eight numbers.
[[HARMONICS_HALF, gnu::always_inline]] inline void half_pairs(__m128i low, __m128i high,
                                                              __m256 (&out)[4]) {
  out[0] = half_bytes(low);
  out[1] = half_bytes(_mm_srli_si128(low, 8));
  out[2] = half_bytes(high);
  out[3] = half_bytes(_mm_srli_si128(high, 8));
}

// A block of each packing, for both widths.

struct PackedQ8 {
  static constexpr std::size_t kBytes = 34;
  [[HARMONICS_WIDE, gnu::always_inline]] static void wide(const std::byte* at, __m512 (&out)[2]) {
    const __m512 scale = wide_scale(loaded<std::int16_t>(at));
    out[0] = _mm512_mul_ps(scale, wide_bytes(at + 2));
    out[1] = _mm512_mul_ps(scale, wide_bytes(at + 18));
  }
  [[HARMONICS_HALF, gnu::always_inline]] static void half(const std::byte* at, __m256 (&out)[4]) {
    const __m256 scale = _mm256_cvtph_ps(_mm_set1_epi16(loaded<std::int16_t>(at)));
    half_pairs(sixteen_bytes(at + 2), sixteen_bytes(at + 18), out);
    HARMONICS_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = _mm256_mul_ps(scale, out[i]);
  }
};

struct PackedQ40 {
  static constexpr std::size_t kBytes = 18;
  [[HARMONICS_WIDE, gnu::always_inline]] static void wide(const std::byte* at, __m512 (&out)[2]) {
    const __m512 table =
        _mm512_mul_ps(_mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7),
                      wide_scale(loaded<std::int16_t>(at)));
    wide_looked_up(at + 2, table, out);
  }
  [[HARMONICS_HALF, gnu::always_inline]] static void half(const std::byte* at, __m256 (&out)[4]) {
    const __m256 scale = _mm256_cvtph_ps(_mm_set1_epi16(loaded<std::int16_t>(at)));
    const __m128i pairs = sixteen_bytes(at + 2), low = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    half_pairs(_mm_sub_epi8(_mm_and_si128(pairs, low), eight),
               _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(pairs, 4), low), eight), out);
    HARMONICS_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = _mm256_mul_ps(scale, out[i]);
  }
};

struct PackedQ41 {
  static constexpr std::size_t kBytes = 20;
  [[HARMONICS_WIDE, gnu::always_inline]] static void wide(const std::byte* at, __m512 (&out)[2]) {
    // Scale and least number, in turn.
    const __m512 both = _mm512_maskz_cvtph_ps(kAll, _mm256_set1_epi32(loaded<std::int32_t>(at)));
    const __m512 table =
        _mm512_fmadd_ps(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                        _mm512_maskz_moveldup_ps(kAll, both), _mm512_maskz_movehdup_ps(kAll, both));
    wide_looked_up(at + 4, table, out);
  }
  [[HARMONICS_HALF, gnu::always_inline]] static void half(const std::byte* at, __m256 (&out)[4]) {
    const __m256 scale = _mm256_cvtph_ps(_mm_set1_epi16(loaded<std::int16_t>(at)));
    const __m256 least = _mm256_cvtph_ps(_mm_set1_epi16(loaded<std::int16_t>(at + 2)));
    const __m128i pairs = sixteen_bytes(at + 4), low = _mm_set1_epi8(15);
    half_pairs(_mm_and_si128(pairs, low), _mm_and_si128(_mm_srli_epi16(pairs, 4), low), out);
    HARMONICS_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = _mm256_fmadd_ps(out[i], scale, least);
  }
};

struct PackedFloat16 {
  static constexpr std::size_t kBytes = 64;
  [[HARMONICS_WIDE, gnu::always_inline]] static void wide(const std::byte* at, __m512 (&out)[2]) {
    out[0] = _mm512_maskz_cvtph_ps(kAll, sixteen_shorts(at));
    out[1] = _mm512_maskz_cvtph_ps(kAll, sixteen_shorts(at + 32));
  }
  [[HARMONICS_HALF, gnu::always_inline]] static void half(const std::byte* at, __m256 (&out)[4]) {
    HARMONICS_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = _mm256_cvtph_ps(sixteen_bytes(at + 16 * i));
  }
};

struct PackedBrain16 {
  static constexpr std::size_t kBytes = 64;
  [[HARMONICS_WIDE, gnu::always_inline]] static void wide(const std::byte* at, __m512 (&out)[2]) {
    HARMONICS_UNROLL
    for (int i = 0; i < 2; ++i) {
      const __m512i words = _mm512_maskz_cvtepu16_epi32(kAll, sixteen_shorts(at + 32 * i));
      out[i] = _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, words, 16));
    }
  }
  [[HARMONICS_HALF, gnu::always_inline]] static void half(const std::byte* at, __m256 (&out)[4]) {
    HARMONICS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const __m256i words = _mm256_cvtepu16_epi32(sixteen_bytes(at + 16 * i));
      out[i] = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    }
  }
};

[[HARMONICS_HALF, gnu::always_inline]] inline float half_folded(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

[[HARMONICS_WIDE, gnu::always_inline]] inline float wide_folded(__m512 lanes) {
  const __m512d all = _mm512_castps_pd(lanes);
  return half_folded(_mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xff, all, 0)),
                     _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xff, all, 1)));
}

struct WidePacked {
  template <typename Q, int R, int O>
  [[HARMONICS_WIDE]] static void run(const PackedTile& t) {
    __m512 sums[R][O];
    HARMONICS_UNROLL
    for (int i = 0; i < R * O; ++i) sums[i / O][i % O] = _mm512_setzero_ps();
    const std::byte* next = t.rows[0] + kTilesAhead * O * t.row_bytes;
    for (std::size_t block = 0; block < t.blocks; ++block, next += O * Q::kBytes) {
      HARMONICS_UNROLL
      for (std::size_t line = 0; line < O * Q::kBytes; line += kLine)
        _mm_prefetch(next + line, _MM_HINT_T0);
      HARMONICS_UNROLL
      for (int o = 0; o < O; ++o) {
        __m512 w[2];
        Q::wide(t.rows[o] + block * Q::kBytes, w);
        HARMONICS_UNROLL
        for (int r = 0; r < R; ++r) {
          const float* const x = t.x + static_cast<std::size_t>(r) * t.x_stride + block * kBlock;
          sums[r][o] = _mm512_fmadd_ps(_mm512_loadu_ps(x), w[0], sums[r][o]);
          sums[r][o] = _mm512_fmadd_ps(_mm512_loadu_ps(x + 16), w[1], sums[r][o]);
        }
      }
    }
    HARMONICS_UNROLL
    for (int i = 0; i < R * O; ++i) {
      t.y[static_cast<std::size_t>(i / O) * t.y_stride + static_cast<std::size_t>(i % O)] =
          wide_folded(sums[i / O][i % O]);
    }
  }
};

struct HalfPacked {
  // Sixteen registers have room for the sums of two rows at once.
  template <typename Q, int R, int O>
  [[HARMONICS_HALF]] static void run(const PackedTile& t) {
    for (int o = 0; o < O; ++o) {
      for (int r = 0; r < R; r += 2) {
        (R - r >= 2 ? some<Q, 2> : some<Q, 1>)(t, r, o);
      }
    }
  }

 private:
  template <typename Q, int R>
  [[HARMONICS_HALF]] static void some(const PackedTile& t, int first, int o) {
    const float* const x = t.x + static_cast<std::size_t>(first) * t.x_stride;
    __m256 low[R], high[R];
    HARMONICS_UNROLL
    for (int r = 0; r < R; ++r) low[r] = high[r] = _mm256_setzero_ps();
    for (std::size_t block = 0; block < t.blocks; ++block) {
      __m256 w[4];
      Q::half(t.rows[o] + block * Q::kBytes, w);
      HARMONICS_UNROLL
      for (int r = 0; r < R; ++r) {
        const float* const at = x + static_cast<std::size_t>(r) * t.x_stride + block * kBlock;
        low[r] = _mm256_fmadd_ps(_mm256_loadu_ps(at), w[0], low[r]);
        high[r] = _mm256_fmadd_ps(_mm256_loadu_ps(at + 8), w[1], high[r]);
        low[r] = _mm256_fmadd_ps(_mm256_loadu_ps(at + 16), w[2], low[r]);
        high[r] = _mm256_fmadd_ps(_mm256_loadu_ps(at + 24), w[3], high[r]);
      }
    }
    HARMONICS_UNROLL
    for (int r = 0; r < R; ++r) {
      t.y[static_cast<std::size_t>(first + r) * t.y_stride + static_cast<std::size_t>(o)] =
          half_folded(low[r], high[r]);
    }
  }
};

template <typename Kernel, typename Q, int R>
void packed_strip(PackedTile t, std::size_t outs) {
  for (; outs >= 4; outs -= 4, t.rows += 4, t.y += 4) Kernel::template run<Q, R, 4>(t);
  for (; outs > 0; --outs, ++t.rows, ++t.y) Kernel::template run<Q, R, 1>(t);
}

template <typename Kernel, typename Q>
void packed_rows(const PackedTile& t, std::size_t rows, std::size_t outs) {
  switch (rows) {
    case 1: return packed_strip<Kernel, Q, 1>(t, outs);
    case 2: return packed_strip<Kernel, Q, 2>(t, outs);
    case 3: return packed_strip<Kernel, Q, 3>(t, outs);
    default: return packed_strip<Kernel, Q, 4>(t, outs);
  }
}

using PackedRun = void (*)(const PackedTile&, std::size_t rows, std::size_t outs);

template <typename Kernel>
PackedRun packed_run(const PackedRowsView& w) {
  switch (w.packing) {
    case Packing::kQ8_0: return packed_rows<Kernel, PackedQ8>;
    case Packing::kQ4_0: return packed_rows<Kernel, PackedQ40>;
    case Packing::kQ4_1: return packed_rows<Kernel, PackedQ41>;
    case Packing::kPlain: break;
    default: return nullptr;
  }
  if (w.dtype == DType::kFloat16) return packed_rows<Kernel, PackedFloat16>;
  return w.dtype == DType::kBFloat16 ? packed_rows<Kernel, PackedBrain16> : nullptr;
}

#undef HARMONICS_WIDE
#undef HARMONICS_HALF
#undef HARMONICS_UNROLL

#endif

}  // namespace

bool packed_products(const RowsView& x, const PackedRowsView& w, std::size_t length, float* y,
                     std::size_t y_stride) {
#if defined(__x86_64__)
  static const bool converts = __builtin_cpu_supports("f16c");
  const std::string_view kernel = kernel_name();
  if (!converts || kernel == "plain" || length % kBlock != 0 || x.rows < 1 ||
      x.rows > kMostPackedRows) {
    return false;
  }
  const PackedRun run = kernel == "avx512" ? packed_run<WidePacked>(w) : packed_run<HalfPacked>(w);
  if (run == nullptr) return false;
  run({x.data, x.stride, w.rows, w.row_bytes, length / kBlock, y, y_stride}, x.rows, w.count);
  return true;
#else
  (void)x, (void)w, (void)length, (void)y, (void)y_stride;
  return false;
#endif
}

}  // namespace harmonics::inline in_runtime
