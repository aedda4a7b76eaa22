#include "torch/fused_sources.h"

// Sums are taken in an order that the shape alone decides, without atomic additions, so a run
// repeats its bits. Numbers are read and written in 16 bits and computed with in float32.
namespace harmonics::inline in_runtime {

const std::string_view kEightsSource = R"CUDA(
typedef unsigned short Bits;

#ifdef HALF
__device__ float up(Bits v) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v)); return f; }
__device__ Bits down(float f) { Bits v; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v) : "f"(f)); return v; }
#else
__device__ float up(Bits v) { return __uint_as_float(((unsigned)v) << 16); }
__device__ Bits down(float f) { Bits v; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(v) : "f"(f)); return v; }
#endif

__device__ void unpack(uint4 from, float* to) {
  const unsigned words[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = up((Bits)(words[i] & 0xffff));
    to[2 * i + 1] = up((Bits)(words[i] >> 16));
  }
}

__device__ uint4 pack(const float* from) {
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = (unsigned)down(from[2 * i]) | ((unsigned)down(from[2 * i + 1]) << 16);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Two sums per column from those of `chunks` chunks, which lie {chunks, 2, columns}. A block of 32 by
// 32 threads takes 32 columns; the sums are valid where threadIdx.y is 0.
__device__ void add_chunks(const float* partial, int chunks, int columns, float* first, float* second) {
  __shared__ float box[2][32][32];
  const int column = blockIdx.x * 32 + threadIdx.x;
  float a = 0, b = 0;
  if (column < columns) {
#pragma unroll 4
    for (int c = threadIdx.y; c < chunks; c += 32) {
      a += partial[(2 * (size_t)c) * columns + column];
      b += partial[(2 * (size_t)c + 1) * columns + column];
    }
  }
  box[0][threadIdx.y][threadIdx.x] = a;
  box[1][threadIdx.y][threadIdx.x] = b;
  for (int half = 16; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half) continue;
    box[0][threadIdx.y][threadIdx.x] += box[0][threadIdx.y + half][threadIdx.x];
    box[1][threadIdx.y][threadIdx.x] += box[1][threadIdx.y + half][threadIdx.x];
  }
  *first = box[0][0][threadIdx.x];
  *second = box[1][0][threadIdx.x];
}

// Blocks of `across` by `down` threads, 256 in all: a thread has eight channels, the blocks of one
// blockIdx.y have `rows_each` rows.
struct Place {
  int eight;
  bool inside;
  long long begin, end, step;
  __device__ Place(long long rows, int eights, int rows_each) {
    eight = blockIdx.x * blockDim.x + threadIdx.x;
    inside = eight < eights;
    begin = (long long)blockIdx.y * rows_each + threadIdx.y;
    end = min(rows, ((long long)blockIdx.y + 1) * rows_each);
    step = blockDim.y;
  }
};

// Adds the sums of the threads of a column and writes them {chunk, 2, channels}.
__device__ void write_sums(const float* a, const float* b, float* partial, const Place& place, int eights) {
  __shared__ float box[16 * 256];
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    box[i * 256 + thread] = a[i];
    box[(8 + i) * 256 + thread] = b[i];
  }
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int i = 0; i < 16; ++i) box[i * 256 + thread] += box[i * 256 + thread + half * blockDim.x];
    }
  }
  if (threadIdx.y != 0 || !place.inside) return;
  const size_t channels = 8 * (size_t)eights;
  float* const out = partial + 2 * (size_t)blockIdx.y * channels + 8 * (size_t)place.eight;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    out[i] = box[i * 256 + thread];
    out[channels + i] = box[(8 + i) * 256 + thread];
  }
}
)CUDA";

const std::string_view kBatchNormSource = R"CUDA(
// Sums of x and its square, less the first row, so that a mean far from zero costs no digits.
extern "C" __global__ void __launch_bounds__(256)
norm_sums(const uint4* __restrict__ x, float* partial, long long rows, int eights, int rows_each) {
  const Place place(rows, eights, rows_each);
  float sums[8] = {}, squares[8] = {};
  if (place.inside) {
    float first[8];
    unpack(x[place.eight], first);
#pragma unroll 4
    for (long long row = place.begin; row < place.end; row += place.step) {
      float v[8];
      unpack(x[row * eights + place.eight], v);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float d = v[i] - first[i];
        sums[i] += d;
        squares[i] += d * d;
      }
    }
  }
  write_sums(sums, squares, partial, place, eights);
}

// numbers: mean, 1 / deviation, factor, summand, each {channels}.
extern "C" __global__ void norm_numbers(const float* partial, int chunks, const Bits* x, const float* gamma,
                                        const float* beta, float* running_mean, float* running_var,
                                        float* numbers, long long rows, int channels, float momentum, float eps) {
  float sum, square;
  add_chunks(partial, chunks, channels, &sum, &square);
  const int c = blockIdx.x * 32 + threadIdx.x;
  if (threadIdx.y != 0 || c >= channels) return;
  const float n = (float)rows;
  const float off = sum / n;
  const float mean = up(x[c]) + off;
  const float spread = square / n - off * off;
  const float variance = spread < 0.f ? 0.f : spread;
  const float inverse = rsqrtf(variance + eps);
  const float factor = gamma[c] * inverse;
  numbers[c] = mean;
  numbers[channels + c] = inverse;
  numbers[2 * channels + c] = factor;
  numbers[3 * channels + c] = beta[c] - mean * factor;
  running_mean[c] += momentum * (mean - running_mean[c]);
  const float unbiased = rows > 1 ? variance * (n / (n - 1)) : variance;
  running_var[c] += momentum * (unbiased - running_var[c]);
}

extern "C" __global__ void __launch_bounds__(256)
norm_apply(const uint4* __restrict__ x, const float* __restrict__ numbers, uint4* __restrict__ y, long long rows,
           int eights, int rows_each) {
  const Place place(rows, eights, rows_each);
  if (!place.inside) return;
  float factor[8], summand[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    factor[i] = numbers[2 * 8 * eights + 8 * place.eight + i];
    summand[i] = numbers[3 * 8 * eights + 8 * place.eight + i];
  }
#pragma unroll 4
  for (long long row = place.begin; row < place.end; row += place.step) {
    float v[8];
    unpack(x[row * eights + place.eight], v);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      v[i] = fmaf(v[i], factor[i], summand[i]);
#ifdef RELU
      v[i] = v[i] < 0.f ? 0.f : v[i];
#endif
    }
    y[row * eights + place.eight] = pack(v);
  }
}

// What comes back where the activation let something through; x as before it.
__device__ float through(float dy, float x, float factor, float summand) {
#ifdef RELU
  return fmaf(x, factor, summand) <= 0.f ? 0.f : dy;
#else
  return dy;
#endif
}

// Sums of dy and of dy * (x - mean).
extern "C" __global__ void __launch_bounds__(256)
norm_back_sums(const uint4* __restrict__ x, const uint4* __restrict__ dy, const float* __restrict__ numbers,
               float* partial, long long rows, int eights, int rows_each) {
  const Place place(rows, eights, rows_each);
  float sums[8] = {}, dots[8] = {};
  if (place.inside) {
    float mean[8], factor[8], summand[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      mean[i] = numbers[8 * place.eight + i];
      factor[i] = numbers[2 * 8 * eights + 8 * place.eight + i];
      summand[i] = numbers[3 * 8 * eights + 8 * place.eight + i];
    }
#pragma unroll 2
    for (long long row = place.begin; row < place.end; row += place.step) {
      float v[8], d[8];
      unpack(x[row * eights + place.eight], v);
      unpack(dy[row * eights + place.eight], d);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float g = through(d[i], v[i], factor[i], summand[i]);
        sums[i] += g;
        dots[i] += g * (v[i] - mean[i]);
      }
    }
  }
  write_sums(sums, dots, partial, place, eights);
}

// slopes: of dy, of x - mean, and what is taken off, each {channels}.
extern "C" __global__ void norm_back_numbers(const float* partial, int chunks, const float* numbers, float* slopes,
                                             float* dgamma, float* dbeta, long long rows, int channels) {
  float sum, dot;
  add_chunks(partial, chunks, channels, &sum, &dot);
  const int c = blockIdx.x * 32 + threadIdx.x;
  if (threadIdx.y != 0 || c >= channels) return;
  const float inverse = numbers[channels + c], factor = numbers[2 * channels + c];
  const float n = (float)rows;
  dgamma[c] = dot * inverse;
  dbeta[c] = sum;
  slopes[c] = factor;
  slopes[channels + c] = factor * inverse * inverse * (dot / n);
  slopes[2 * channels + c] = factor * (sum / n);
}

extern "C" __global__ void __launch_bounds__(256)
norm_back_apply(const uint4* __restrict__ x, const uint4* __restrict__ dy, const float* __restrict__ numbers,
                const float* __restrict__ slopes, uint4* __restrict__ dx, long long rows, int eights,
                int rows_each) {
  const Place place(rows, eights, rows_each);
  if (!place.inside) return;
  float mean[8], factor[8], summand[8], a[8], k[8], m[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int c = 8 * place.eight + i;
    mean[i] = numbers[c];
    factor[i] = numbers[2 * 8 * eights + c];
    summand[i] = numbers[3 * 8 * eights + c];
    a[i] = slopes[c];
    k[i] = slopes[8 * eights + c];
    m[i] = slopes[2 * 8 * eights + c];
  }
#pragma unroll 2
  for (long long row = place.begin; row < place.end; row += place.step) {
    float v[8], d[8];
    unpack(x[row * eights + place.eight], v);
    unpack(dy[row * eights + place.eight], d);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float g = through(d[i], v[i], factor[i], summand[i]);
      d[i] = a[i] * g - k[i] * (v[i] - mean[i]) - m[i];
    }
    dx[row * eights + place.eight] = pack(d);
  }
}

extern "C" __global__ void add_relu(const uint4* __restrict__ a, const uint4* __restrict__ b, uint4* __restrict__ y,
                                    long long count) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {
    float v[8], w[8];
    unpack(a[i], v);
    unpack(b[i], w);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      v[k] += w[k];
      v[k] = v[k] < 0.f ? 0.f : v[k];
    }
    y[i] = pack(v);
  }
}

extern "C" __global__ void relu_back(const uint4* __restrict__ y, const uint4* __restrict__ dy, uint4* __restrict__ dx,
                                     long long count) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {
    float v[8], d[8];
    unpack(y[i], v);
    unpack(dy[i], d);
#pragma unroll
    for (int k = 0; k < 8; ++k) d[k] = v[k] <= 0.f ? 0.f : d[k];
    dx[i] = pack(d);
  }
}
)CUDA";

const std::string_view kLayerNormSource = R"CUDA(
#define EIGHTS (WIDTH / 8)
#define TURNS ((EIGHTS + 31) / 32)
#define WARPS 4

#ifdef WIDE
typedef float Row;
__device__ void load(const Row* row, int eight, float* to) {
  const float4 a = ((const float4*)row)[2 * eight], b = ((const float4*)row)[2 * eight + 1];
  to[0] = a.x; to[1] = a.y; to[2] = a.z; to[3] = a.w;
  to[4] = b.x; to[5] = b.y; to[6] = b.z; to[7] = b.w;
}
__device__ void save(Row* row, int eight, const float* from) {
  ((float4*)row)[2 * eight] = make_float4(from[0], from[1], from[2], from[3]);
  ((float4*)row)[2 * eight + 1] = make_float4(from[4], from[5], from[6], from[7]);
}
#else
typedef Bits Row;
__device__ void load(const Row* row, int eight, float* to) { unpack(((const uint4*)row)[eight], to); }
__device__ void save(Row* row, int eight, const float* from) { ((uint4*)row)[eight] = pack(from); }
#endif

__device__ float of_warp(float v) {
  for (int half = 16; half > 0; half /= 2) v += __shfl_xor_sync(0xffffffffu, v, half);
  return v;
}

// moments: mean and 1 / deviation of each row, {2, rows}.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
row_norm(const Row* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
         Bits* __restrict__ y, float* __restrict__ moments, long long rows, float eps) {
  const int lane = threadIdx.x % 32;
  for (long long row = (long long)blockIdx.x * WARPS + threadIdx.x / 32; row < rows; row += (long long)gridDim.x * WARPS) {
    float v[TURNS][8];
    float sum = 0;
#pragma unroll
    for (int t = 0; t < TURNS; ++t) {
      const int eight = t * 32 + lane;
      if (eight < EIGHTS) {
        load(x + row * WIDTH, eight, v[t]);
      } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) v[t][i] = 0;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += v[t][i];
    }
    const float mean = of_warp(sum) / WIDTH;
    float squares = 0;
#pragma unroll
    for (int t = 0; t < TURNS; ++t) {
      if (t * 32 + lane >= EIGHTS) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) squares += (v[t][i] - mean) * (v[t][i] - mean);
    }
    const float inverse = rsqrtf(of_warp(squares) / WIDTH + eps);
#pragma unroll
    for (int t = 0; t < TURNS; ++t) {
      const int eight = t * 32 + lane;
      if (eight >= EIGHTS) continue;
      float g[8], b[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        g[i] = gamma[8 * eight + i];
        b[i] = beta[8 * eight + i];
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) v[t][i] = (v[t][i] - mean) * inverse * g[i] + b[i];
      ((uint4*)(y + row * WIDTH))[eight] = pack(v[t]);
    }
    if (lane == 0) {
      moments[row] = mean;
      moments[rows + row] = inverse;
    }
  }
}

// partial: sums over a block's rows of dy * (x - mean) / deviation and of dy, {blocks, 2, WIDTH}.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
row_norm_back(const Row* __restrict__ x, const Bits* __restrict__ dy, const float* __restrict__ gamma,
              const float* __restrict__ moments, Row* __restrict__ dx, float* __restrict__ partial, long long rows) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float dgamma[TURNS][8] = {}, dbeta[TURNS][8] = {};
  for (long long row = (long long)blockIdx.x * WARPS + warp; row < rows; row += (long long)gridDim.x * WARPS) {
    const float mean = moments[row], inverse = moments[rows + row];
    float v[TURNS][8], d[TURNS][8];
#pragma unroll
    for (int t = 0; t < TURNS; ++t) {
      const int eight = t * 32 + lane;
      if (eight >= EIGHTS) continue;
      load(x + row * WIDTH, eight, v[t]);
      unpack(((const uint4*)(dy + row * WIDTH))[eight], d[t]);
    }
    float sum = 0, dot = 0;
#pragma unroll
    for (int t = 0; t < TURNS; ++t) {
      const int eight = t * 32 + lane;
      if (eight >= EIGHTS) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[t][i] = (v[t][i] - mean) * inverse;
        dgamma[t][i] += d[t][i] * v[t][i];
        dbeta[t][i] += d[t][i];
        d[t][i] *= gamma[8 * eight + i];
        sum += d[t][i];
        dot += d[t][i] * v[t][i];
      }
    }
    sum = of_warp(sum) / WIDTH;
    dot = of_warp(dot) / WIDTH;
#pragma unroll
    for (int t = 0; t < TURNS; ++t) {
      const int eight = t * 32 + lane;
      if (eight >= EIGHTS) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) d[t][i] = inverse * (d[t][i] - sum - v[t][i] * dot);
      save(dx + row * WIDTH, eight, d[t]);
    }
  }
  __shared__ float box[2][WIDTH];
  for (int turn = 0; turn < WARPS; ++turn) {
    if (warp == turn) {
#pragma unroll
      for (int t = 0; t < TURNS; ++t) {
        const int eight = t * 32 + lane;
        if (eight >= EIGHTS) continue;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float a = dgamma[t][i], b = dbeta[t][i];
          box[0][8 * eight + i] = turn == 0 ? a : box[0][8 * eight + i] + a;
          box[1][8 * eight + i] = turn == 0 ? b : box[1][8 * eight + i] + b;
        }
      }
    }
    __syncthreads();
  }
  float* const out = partial + 2 * (size_t)blockIdx.x * WIDTH;
  for (int i = threadIdx.x; i < WIDTH; i += 32 * WARPS) {
    out[i] = box[0][i];
    out[WIDTH + i] = box[1][i];
  }
}

extern "C" __global__ void row_norm_finish(const float* partial, int chunks, float* dgamma, float* dbeta) {
  float first, second;
  add_chunks(partial, chunks, WIDTH, &first, &second);
  const int c = blockIdx.x * 32 + threadIdx.x;
  if (threadIdx.y != 0 || c >= WIDTH) return;
  dgamma[c] = first;
  dbeta[c] = second;
}
)CUDA";

const std::string_view kLinearSource = R"CUDA(
// Sums over the rows of dy; the second sums are nothing.
extern "C" __global__ void __launch_bounds__(256)
column_sums(const uint4* __restrict__ dy, float* partial, long long rows, int eights, int rows_each) {
  const Place place(rows, eights, rows_each);
  float sums[8] = {}, nothing[8] = {};
  if (place.inside) {
#pragma unroll 4
    for (long long row = place.begin; row < place.end; row += place.step) {
      float d[8];
      unpack(dy[row * eights + place.eight], d);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] += d[i];
    }
  }
  write_sums(sums, nothing, partial, place, eights);
}

// dx = dy * gelu'(x), rounded as it is handed on, and the sums over its rows.
extern "C" __global__ void __launch_bounds__(256)
gelu_back(const uint4* __restrict__ x, const uint4* __restrict__ dy, uint4* __restrict__ dx, float* partial,
          long long rows, int eights, int rows_each) {
  const Place place(rows, eights, rows_each);
  float sums[8] = {}, nothing[8] = {};
  if (place.inside) {
#pragma unroll 2
    for (long long row = place.begin; row < place.end; row += place.step) {
      float v[8], d[8];
      unpack(x[row * eights + place.eight], v);
      unpack(dy[row * eights + place.eight], d);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float below = 0.5f * (1.f + erff(v[i] * 0.70710678118654752440f));
        const float density = 0.39894228040143267794f * __expf(-0.5f * v[i] * v[i]);
        d[i] *= below + v[i] * density;
        d[i] = up(down(d[i]));
        sums[i] += d[i];
      }
      dx[row * eights + place.eight] = pack(d);
    }
  }
  write_sums(sums, nothing, partial, place, eights);
}

extern "C" __global__ void columns_finish(const float* partial, int chunks, float* sums, int columns) {
  float first, second;
  add_chunks(partial, chunks, columns, &first, &second);
  const int c = blockIdx.x * 32 + threadIdx.x;
  if (threadIdx.y == 0 && c < columns) sums[c] = first;
}
)CUDA";

}  // namespace harmonics::inline in_runtime
