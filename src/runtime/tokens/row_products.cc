// Sums of products in three ways of one meaning: 512 bits, 256 bits, and plain loops.
#include <cmath>
#include <cstring>
#include <string_view>

#include <harmonics/base/error.h>

#include "row_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace harmonics::inline in_runtime {
namespace {

constexpr std::size_t kLanes = 16;

/// One tile: `R` rows of x by `O` rows of w.
struct Tile {
  const float* x;
  std::size_t x_stride;
  const float* w;
  std::size_t w_stride;
  std::size_t length;
  float* y;
  std::size_t y_stride;
};

float folded(float (&lanes)[kLanes]) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

float plain_product(const float* x, const float* w, std::size_t length) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= length; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = __builtin_fmaf(x[i + lane], w[i + lane], lanes[lane]);
    }
  }
  for (std::size_t lane = 0; i + lane < length; ++lane) {
    lanes[lane] = __builtin_fmaf(x[i + lane], w[i + lane], lanes[lane]);
  }
  return folded(lanes);
}

struct PlainTile {
  template <int R, int O>
  static void run(const Tile& t) {
    for (std::size_t r = 0; r < R; ++r) {
      for (std::size_t o = 0; o < O; ++o) {
        t.y[r * t.y_stride + o] =
            plain_product(t.x + r * t.x_stride, t.w + o * t.w_stride, t.length);
      }
    }
  }
};

#if defined(__x86_64__)

[[gnu::target("avx2,fma"), gnu::always_inline]] inline float folded_256(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

[[gnu::target("avx512f,avx2,fma"), gnu::always_inline]] inline float folded_512(__m512 lanes) {
  // With a mask, since g++ 12 warns of its own header's plain one.
  const __m512d all = _mm512_castps_pd(lanes);
  return folded_256(_mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xff, all, 0)),
                    _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xff, all, 1)));
}

struct WideTile {
  template <int R, int O>
  [[gnu::target("avx512f,avx2,fma")]] static void run(const Tile& t) {
    __m512 sums[R][O];
    for (int r = 0; r < R; ++r) {
      for (int o = 0; o < O; ++o) sums[r][o] = _mm512_setzero_ps();
    }
    std::size_t i = 0;
    for (; i + kLanes <= t.length; i += kLanes) add<R, O>(t, i, 0xffff, sums);
    if (i < t.length) add<R, O>(t, i, static_cast<__mmask16>((1u << (t.length - i)) - 1u), sums);
    for (int r = 0; r < R; ++r) {
      for (int o = 0; o < O; ++o) {
        t.y[static_cast<std::size_t>(r) * t.y_stride + static_cast<std::size_t>(o)] =
            folded_512(sums[r][o]);
      }
    }
  }

 private:
  template <int R, int O>
  [[gnu::target("avx512f,avx2,fma"), gnu::always_inline]] static void add(const Tile& t,
                                                                          std::size_t i,
                                                                          __mmask16 mask,
                                                                          __m512 (&sums)[R][O]) {
    __m512 w[O];
    for (int o = 0; o < O; ++o) {
      w[o] = _mm512_maskz_loadu_ps(mask, t.w + static_cast<std::size_t>(o) * t.w_stride + i);
    }
    for (int r = 0; r < R; ++r) {
      const __m512 x =
          _mm512_maskz_loadu_ps(mask, t.x + static_cast<std::size_t>(r) * t.x_stride + i);
      for (int o = 0; o < O; ++o) sums[r][o] = _mm512_fmadd_ps(x, w[o], sums[r][o]);
    }
  }
};

struct HalfTile {
  template <int R, int O>
  [[gnu::target("avx2,fma")]] static void run(const Tile& t) {
    for (int r = 0; r < R; ++r) {
      for (int o = 0; o < O; o += 4) row < O<4 ? O : 4>(t, r, o);
    }
  }

 private:
  template <int O>
  [[gnu::target("avx2,fma")]] static void row(const Tile& t, int r, int first) {
    const float* x = t.x + static_cast<std::size_t>(r) * t.x_stride;
    const float* w = t.w + static_cast<std::size_t>(first) * t.w_stride;
    __m256 low[O], high[O];
    for (int o = 0; o < O; ++o) low[o] = high[o] = _mm256_setzero_ps();
    std::size_t i = 0;
    for (; i + kLanes <= t.length; i += kLanes) {
      add<O>(x + i, w + i, t.w_stride, low, high);
    }
    if (i < t.length) {  // the rest, filled up with zeros
      float rest[O + 1][kLanes] = {};
      std::memcpy(rest[O], x + i, (t.length - i) * sizeof(float));
      for (int o = 0; o < O; ++o) {
        std::memcpy(rest[o], w + static_cast<std::size_t>(o) * t.w_stride + i,
                    (t.length - i) * sizeof(float));
      }
      add<O>(rest[O], rest[0], kLanes, low, high);
    }
    float* y = t.y + static_cast<std::size_t>(r) * t.y_stride + first;
    for (int o = 0; o < O; ++o) y[o] = folded_256(low[o], high[o]);
  }

  template <int O>
  [[gnu::target("avx2,fma"), gnu::always_inline]] static void add(const float* x, const float* w,
                                                                  std::size_t stride,
                                                                  __m256 (&low)[O],
                                                                  __m256 (&high)[O]) {
    const __m256 first = _mm256_loadu_ps(x), second = _mm256_loadu_ps(x + kLanes / 2);
    for (int o = 0; o < O; ++o) {
      const float* at = w + static_cast<std::size_t>(o) * stride;
      low[o] = _mm256_fmadd_ps(first, _mm256_loadu_ps(at), low[o]);
      high[o] = _mm256_fmadd_ps(second, _mm256_loadu_ps(at + kLanes / 2), high[o]);
    }
  }
};

#endif

Tile tile_at(const Tile& all, std::size_t row, std::size_t out) {
  Tile t = all;
  t.x += row * t.x_stride;
  t.w += out * t.w_stride;
  t.y += row * t.y_stride + out;
  return t;
}

template <typename Kernel, int R, int O>
void strip(const Tile& all, std::size_t row, std::size_t outs) {
  std::size_t out = 0;
  for (; out + O <= outs; out += O) Kernel::template run<R, O>(tile_at(all, row, out));
  for (; out < outs; ++out) Kernel::template run<R, 1>(tile_at(all, row, out));
}

template <typename Kernel>
void all_products(const Tile& all, std::size_t rows, std::size_t outs) {
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4) strip<Kernel, 4, 4>(all, row, outs);
  if (rows - row == 3) return strip<Kernel, 3, 4>(all, row, outs);
  if (rows - row == 2) return strip<Kernel, 2, 8>(all, row, outs);
  if (rows - row == 1) return strip<Kernel, 1, 8>(all, row, outs);
}

struct KernelChoice {
  const char* name;
  void (*run)(const Tile&, std::size_t rows, std::size_t outs);
};

KernelChoice kernel_named(std::string_view name) {
#if defined(__x86_64__)
  const bool half = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool wide = half && __builtin_cpu_supports("avx512f");
  if (wide && (name.empty() || name == "avx512")) return {"avx512", all_products<WideTile>};
  if (half && (name.empty() || name == "avx2")) return {"avx2", all_products<HalfTile>};
#endif
  if (name.empty() || name == "plain") return {"plain", all_products<PlainTile>};
  fail(ErrorCode::kUnimplemented, "this machine has no '{}' for products", name);
}

KernelChoice& chosen_kernel() {
  static KernelChoice choice = kernel_named("");
  return choice;
}

}  // namespace

void products(const RowsView& x, const RowsView& w, std::size_t length, float* y,
              std::size_t y_stride) {
  chosen_kernel().run({x.data, x.stride, w.data, w.stride, length, y, y_stride}, x.rows, w.rows);
}

const char* kernel_name() { return chosen_kernel().name; }

void choose_kernel(const char* name) { chosen_kernel() = kernel_named(name ? name : ""); }

}  // namespace harmonics::inline in_runtime
