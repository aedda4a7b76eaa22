#include "torch_tokens/fused_token_sources.h"

// A row's sums have an order that neither other rows nor the size of the launch change: its numbers
// are dealt to the threads of a warp, or of a block, by their place alone. Compiled without
// contraction, so that a product and a sum are rounded once only where the text says fmaf.
namespace harmonics::inline in_runtime {

const std::string_view kTokenNumbersSource = R"CUDA(
#ifdef WIDE
typedef float Number;
struct Eight { float4 low, high; };
__device__ float wide(Number v) { return v; }
__device__ Number narrow(float v) { return v; }
__device__ void spread(const Eight& from, float* to) {
  to[0] = from.low.x; to[1] = from.low.y; to[2] = from.low.z; to[3] = from.low.w;
  to[4] = from.high.x; to[5] = from.high.y; to[6] = from.high.z; to[7] = from.high.w;
}
#else
typedef Bits Number;
struct Eight { uint4 all; };
__device__ float wide(Number v) { return up(v); }
__device__ Number narrow(float v) { return down(v); }
__device__ void spread(const Eight& from, float* to) { unpack(from.all, to); }
#endif
)CUDA";

const std::string_view kTokenProductSource = R"CUDA(
#define WARPS 2

// silu 1, gelu 2, gelu_tanh 3, relu 4, sigmoid 5, tanh 6
__device__ float activated(float x, int activation) {
  switch (activation) {
    case 1: return x / (1.f + expf(-x));
    case 2: return x * 0.5f * (1.f + erff(x * 0.70710678f));
    case 3: return 0.5f * x * (1.f + tanhf(0.79788456f * (x + 0.044715f * (x * x * x))));
    case 4: return x > 0.f ? x : 0.f;
    case 5: return 1.f / (1.f + expf(-x));
    case 6: return tanhf(x);
    default: return x;
  }
}

__device__ float over_warp(float v) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2) v += __shfl_xor_sync(0xffffffffu, v, half);
  return v;
}

struct Rows {
  const Number* x;
  const Number* weight;
  const float* bias;  // or null
  const float* norm;  // weight of an rms norm of x, or null
  float eps;
  int rows, inputs;
};

// The products of rows [first, first + R) with two rows of the weight; lane r has those of row r.
template <int R>
__device__ void two_products(const Rows& all, int first, long long one, long long other, float* a,
                             float* b) {
  const int lane = threadIdx.x % 32;
  const int eights = all.inputs / 8;
  const Eight* const w0 = (const Eight*)(all.weight + one * all.inputs);
  const Eight* const w1 = (const Eight*)(all.weight + other * all.inputs);
  float sums0[R], sums1[R], squares[R];
#pragma unroll
  for (int r = 0; r < R; ++r) sums0[r] = sums1[r] = squares[r] = 0.f;
#pragma unroll 3
  for (int e = lane; e < eights; e += 32) {
    float v0[8], v1[8];
    spread(w0[e], v0);
    spread(w1[e], v1);
    if (all.norm) {
      const float4* const factors = (const float4*)(all.norm + 8 * e);
      const float4 low = factors[0], high = factors[1];
      const float n[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v0[i] *= n[i];
        v1[i] *= n[i];
      }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int row = min(first + r, all.rows - 1);
      float x[8];
      spread(((const Eight*)(all.x + (size_t)row * all.inputs))[e], x);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sums0[r] = fmaf(v0[i], x[i], sums0[r]);
        sums1[r] = fmaf(v1[i], x[i], sums1[r]);
        squares[r] = fmaf(x[i], x[i], squares[r]);
      }
    }
  }
  *a = *b = 0.f;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    float s0 = over_warp(sums0[r]), s1 = over_warp(sums1[r]);
    if (all.norm) {
      const float factor = rsqrtf(over_warp(squares[r]) / (float)all.inputs + all.eps);
      s0 *= factor;
      s1 *= factor;
    }
    if (lane == r) {
      *a = s0;
      *b = s1;
    }
  }
  if (all.bias) {
    *a += all.bias[one];
    *b += all.bias[other];
  }
}

// The norm alone, one warp a row.
extern "C" __global__ void normed(Rows all, Number* y) {
  const int lane = threadIdx.x, eights = all.inputs / 8;
  const Eight* const x = (const Eight*)(all.x + (size_t)blockIdx.x * all.inputs);
  Number* const out = y + (size_t)blockIdx.x * all.inputs;
  float squares = 0.f;
  for (int e = lane; e < eights; e += 32) {
    float v[8];
    spread(x[e], v);
#pragma unroll
    for (int i = 0; i < 8; ++i) squares = fmaf(v[i], v[i], squares);
  }
  const float factor = rsqrtf(over_warp(squares) / (float)all.inputs + all.eps);
  for (int e = lane; e < eights; e += 32) {
    float v[8];
    spread(x[e], v);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[8 * e + i] = narrow(v[i] * factor * all.norm[8 * e + i]);
  }
}

// How a product ends: what layers give is rounded to the stage's numbers before others see it.
// gated: `outputs` pairs that lie `outputs` apart give one number each.
struct End {
  const Number* summand;  // or null
  void* y;
  int outputs, activation, gated, wide;
};

__device__ void store(const End& end, int row, long long output, float v) {
  const size_t at = (size_t)row * end.outputs + output;
  if (end.summand) v = wide(narrow(v)) + wide(end.summand[at]);
  if (end.wide) ((float*)end.y)[at] = v;
  else ((Number*)end.y)[at] = narrow(v);
}

template <int R>
__device__ void products(const Rows& all, const End& end) {
  const int first = blockIdx.y * R;
  const int row = first + threadIdx.x % 32;
  const int step = gridDim.x * WARPS;
  const int pairs = end.gated ? end.outputs : (end.outputs + 1) / 2;
  for (int pair = blockIdx.x * WARPS + threadIdx.x / 32; pair < pairs; pair += step) {
    const long long one = end.gated ? pair : 2 * pair;
    const bool has_other = end.gated || 2 * pair + 1 < end.outputs;
    const long long other = end.gated ? pair + end.outputs : one + (has_other ? 1 : 0);
    float a, b;
    two_products<R>(all, first, one, other, &a, &b);
    if (row >= all.rows || row >= first + R) continue;
    a = activated(a, end.activation);
    if (end.gated) {
      store(end, row, pair, wide(narrow(a)) * wide(narrow(b)));
    } else {
      store(end, row, one, a);
      if (has_other) store(end, row, other, activated(b, end.activation));
    }
  }
}

// Where queries, keys and values go. Pairs of numbers of a head are turned by the row's position.
struct Heads {
  const float* cosines;  // {positions, head_dim / 2}, or null
  const float* sines;
  const long long* positions;
  const long long* slots;
  Number* queries;
  Number* keys;  // {blocks, groups, 16, head_dim}
  Number* values;
  int heads, groups, head_dim;
};

template <int R>
__device__ void projected(const Rows& all, const Heads& to) {
  const int first = blockIdx.y * R;
  const int row = first + threadIdx.x % 32;
  const int half = to.head_dim / 2;
  const int step = gridDim.x * WARPS;
  const int pairs = (to.heads + 2 * to.groups) * half;
  for (int pair = blockIdx.x * WARPS + threadIdx.x / 32; pair < pairs; pair += step) {
    const int head = pair / half, i = pair % half;
    const long long one = (long long)head * to.head_dim + i;
    float a, b;
    two_products<R>(all, first, one, one + half, &a, &b);
    if (row >= all.rows || row >= first + R) continue;
    if (to.cosines && head < to.heads + to.groups) {
      const float c = to.cosines[to.positions[row] * half + i];
      const float s = to.sines[to.positions[row] * half + i];
      const float turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    }
    Number* out = to.queries + (size_t)row * to.heads * to.head_dim + one;
    if (head >= to.heads) {
      const bool is_key = head < to.heads + to.groups;
      const int group = head - to.heads - (is_key ? 0 : to.groups);
      const long long slot = to.slots[row];
      out = (is_key ? to.keys : to.values) +
            (((slot / 16) * to.groups + group) * 16 + slot % 16) * to.head_dim + i;
    }
    out[0] = narrow(a);
    out[half] = narrow(b);
  }
}

#define PRODUCTS(R)                                                                              \
  extern "C" __global__ void __launch_bounds__(32 * WARPS) products_##R(Rows all, End end) {     \
    products<R>(all, end);                                                                       \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(32 * WARPS) projected_##R(Rows all, Heads to) {   \
    projected<R>(all, to);                                                                       \
  }
PRODUCTS(1)
PRODUCTS(2)
PRODUCTS(4)
PRODUCTS(8)
)CUDA";

const std::string_view kTokenAttentionSource = R"CUDA(
#define THREADS 256
#define LANES (HEAD_DIM / 8)     // threads that share a token's value
#define SETS (THREADS / LANES)   // tokens whose values are read at the same time

// Largest, or sum, over the block, of COPIES numbers a thread.
template <bool LARGEST>
__device__ void over_block(float* v) {
  __shared__ float box[COPIES][THREADS / 32];
#pragma unroll
  for (int c = 0; c < COPIES; ++c) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, v[c], half);
      v[c] = LARGEST ? fmaxf(v[c], other) : v[c] + other;
    }
    if (threadIdx.x % 32 == 0) box[c][threadIdx.x / 32] = v[c];
  }
  __syncthreads();
#pragma unroll
  for (int c = 0; c < COPIES; ++c) {
    v[c] = box[c][0];
#pragma unroll
    for (int i = 1; i < THREADS / 32; ++i) v[c] = LARGEST ? fmaxf(v[c], box[c][i]) : v[c] + box[c][i];
  }
  __syncthreads();
}

// A block has the queries of one row that share keys: blockIdx.x the row, blockIdx.y the group. It
// takes THREADS tokens at a time, from a multiple of THREADS on.
extern "C" __global__ void __launch_bounds__(THREADS)
attention(const Number* queries, const Number* keys, const Number* values, const long long* blocks,
          int columns, const long long* positions, int window, Number* out) {
  __shared__ float asked[COPIES][HEAD_DIM];
  __shared__ float shares[COPIES][THREADS];
  __shared__ float box[SETS][HEAD_DIM];
  const int row = blockIdx.x, group = blockIdx.y, groups = gridDim.y;
  const long long* const table = blocks + (size_t)row * columns;
  const size_t at = ((size_t)row * groups + group) * COPIES * HEAD_DIM;
  for (int i = threadIdx.x; i < COPIES * HEAD_DIM; i += THREADS) {
    asked[i / HEAD_DIM][i % HEAD_DIM] = wide(queries[at + i]) / sqrtf((float)HEAD_DIM);
  }
  __syncthreads();
  const int end = (int)positions[row] + 1;
  const int begin = window > 0 && end > window ? end - window : 0;
  const int lane = threadIdx.x % LANES, set = threadIdx.x / LANES;
  float most[COPIES], sum[COPIES], found[COPIES][8];
#pragma unroll
  for (int c = 0; c < COPIES; ++c) {
    most[c] = -1e30f;
    sum[c] = 0.f;
#pragma unroll
    for (int i = 0; i < 8; ++i) found[c][i] = 0.f;
  }
  for (int first = begin / THREADS * THREADS; first < end; first += THREADS) {
    const int token = first + threadIdx.x;
    const bool seen = token >= begin && token < end;
    float score[COPIES], higher[COPIES];
#pragma unroll
    for (int c = 0; c < COPIES; ++c) score[c] = 0.f;
    if (seen) {
      const Eight* const key =
          (const Eight*)(keys + ((table[token / 16] * groups + group) * 16 + token % 16) * HEAD_DIM);
#pragma unroll
      for (int e = 0; e < LANES; ++e) {
        float x[8];
        spread(key[e], x);
#pragma unroll
        for (int c = 0; c < COPIES; ++c) {
#pragma unroll
          for (int i = 0; i < 8; ++i) score[c] = fmaf(x[i], asked[c][8 * e + i], score[c]);
        }
      }
    }
#pragma unroll
    for (int c = 0; c < COPIES; ++c) higher[c] = seen ? score[c] : -1e30f;
    over_block<true>(higher);
#pragma unroll
    for (int c = 0; c < COPIES; ++c) {
      higher[c] = fmaxf(higher[c], most[c]);
      const float fade = expf(most[c] - higher[c]);
      most[c] = higher[c];
      sum[c] *= fade;
#pragma unroll
      for (int i = 0; i < 8; ++i) found[c][i] *= fade;
      score[c] = seen ? expf(score[c] - higher[c]) : 0.f;
      shares[c][threadIdx.x] = score[c];
    }
    over_block<false>(score);
#pragma unroll
    for (int c = 0; c < COPIES; ++c) sum[c] += score[c];
    const int count = min(end - first, THREADS);
    if (set < SETS) {
      for (int t = set; t < count; t += SETS) {
        if (first + t < begin) continue;
        float x[8];
        spread(((const Eight*)(values + ((table[(first + t) / 16] * groups + group) * 16 +
                                         (first + t) % 16) * HEAD_DIM))[lane], x);
#pragma unroll
        for (int c = 0; c < COPIES; ++c) {
#pragma unroll
          for (int i = 0; i < 8; ++i) found[c][i] = fmaf(shares[c][t], x[i], found[c][i]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int c = 0; c < COPIES; ++c) {
    if (set < SETS) {
#pragma unroll
      for (int i = 0; i < 8; ++i) box[set][8 * lane + i] = found[c][i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < HEAD_DIM; i += THREADS) {
      float all = box[0][i];
      for (int s = 1; s < SETS; ++s) all += box[s][i];
      out[at + c * HEAD_DIM + i] = narrow(all / sum[c]);
    }
    __syncthreads();
  }
}
)CUDA";

}  // namespace harmonics::inline in_runtime
