#include "exact_sources.h"

namespace harmonics::inline in_runtime {

const char* const kExactOpenClPrelude = R"CL(
#pragma OPENCL FP_CONTRACT OFF
#ifdef HAS_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define KERNEL kernel void
#define FUNCTION static
#define GLOBAL global
#define SHARED local
#define SHARED_POINTER local
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define ITEM_NUMBER ((int)get_global_id(0))
#define LOCAL_NUMBER ((int)get_local_id(0))
#define GROUP_NUMBER ((int)get_group_id(0))
#define LONG long
#define BITS(x) as_uint(x)
#define FLOAT_OF(x) as_float(x)
#define FUSED(a, b, c) fma((float)(a), (float)(b), (float)(c))
#define OVER(a, b) ((a) / (b))
#define ROOT(x) sqrt((float)(x))
#define HIGH_PRODUCT(a, b) mul_hi((uint)(a), (uint)(b))
)CL";

const char* const kExactCudaPrelude = R"CL(
typedef unsigned int uint;
#define HAS_DOUBLE
#define KERNEL extern "C" __global__ void
#define FUNCTION static __device__
#define GLOBAL
#define SHARED __shared__
#define SHARED_POINTER
#define BARRIER __syncthreads()
#define ITEM_NUMBER ((int)(blockIdx.x * blockDim.x + threadIdx.x))
#define LOCAL_NUMBER ((int)threadIdx.x)
#define GROUP_NUMBER ((int)blockIdx.x)
#define LONG long long
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define BITS(x) __float_as_uint(x)
#define FLOAT_OF(x) __uint_as_float(x)
#define FUSED(a, b, c) __fmaf_rn(a, b, c)
#define OVER(a, b) __fdiv_rn(a, b)
#define ROOT(x) __fsqrt_rn(x)
#define HIGH_PRODUCT(a, b) __umulhi(a, b)
)CL";

const char* const kExactFunctionSource = R"CL(
#define ITEM(n) const int i = ITEM_NUMBER; if (i >= (n)) return
#define GROUP 64
#define LANES 16

FUNCTION float power_of_two(int n) { return FLOAT_OF((uint)(n + 127) << 23); }

FUNCTION float exact_exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  const float shifted = FUSED(x, 0x1.715476p+0f, 0x1.8p+23f);
  const float n = shifted - 0x1.8p+23f;
  float r = FUSED(n, -0x1.62e4p-1f, x);
  r = FUSED(n, -0x1.7f7d1cp-20f, r);
  float s = 0x1.a12a42p-13f;
  s = FUSED(s, r, 0x1.6d4920p-10f);
  s = FUSED(s, r, 0x1.1110e0p-7f);
  s = FUSED(s, r, 0x1.5554e4p-5f);
  s = FUSED(s, r, 0x1.555556p-3f);
  s = FUSED(s, r, 0.5f);
  const float near_one = 1.0f + FUSED(s, r * r, r);
  const int whole = (int)(BITS(shifted) - BITS(0x1.8p+23f));
  const int first = whole >> 1;
  return near_one * power_of_two(first) * power_of_two(whole - first);
}

FUNCTION float exact_log(float x) {
  const int tiny = x < 0x1p-126f;
  const float scaled = tiny ? x * 0x1p+23f : x;
  const uint offset = BITS(scaled) - 0x3f3504f3u;
  const int whole = (int)offset >> 23;
  const float f = FLOAT_OF((offset & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float n = (float)(whole - (tiny ? 23 : 0));
  const float square = f * f;
  float s = -0x1.fc0714p-5f;
  s = FUSED(s, f, 0x1.af5848p-4f);
  s = FUSED(s, f, -0x1.b41174p-4f);
  s = FUSED(s, f, 0x1.c41b88p-4f);
  s = FUSED(s, f, -0x1.fdfb80p-4f);
  s = FUSED(s, f, 0x1.249688p-3f);
  s = FUSED(s, f, -0x1.555c54p-3f);
  s = FUSED(s, f, 0x1.9999a8p-3f);
  s = FUSED(s, f, -0x1.fffff2p-3f);
  s = FUSED(s, f, 0x1.555556p-2f);
  const float tail = FUSED(f, s, -0.5f);
  const float low = FUSED(n, 0x1.7f7d1cp-20f, square * tail);
  float y = FUSED(n, 0x1.62e4p-1f, f + low);
  y = x == INFINITY ? x : y;
  y = x == 0.0f ? -INFINITY : y;
  return x >= 0.0f ? y : NAN;
}

FUNCTION float exact_tanh(float x) {
  const uint sign = BITS(x) & 0x80000000u;
  const float size = FLOAT_OF(BITS(x) ^ sign);
  const float square = x * x;
  float s = -0x1.4caed2p-11f;
  s = FUSED(s, square, 0x1.87849cp-9f);
  s = FUSED(s, square, -0x1.1a7ebap-7f);
  s = FUSED(s, square, 0x1.657652p-6f);
  s = FUSED(s, square, -0x1.ba105ep-5f);
  s = FUSED(s, square, 0x1.1110f4p-3f);
  s = FUSED(s, square, -0x1.555556p-2f);
  if (size < 0.8f) return FUSED(s, square * x, x);
  const float outer = 1.0f - OVER(2.0f, exact_exp(size + size) + 1.0f);
  return FLOAT_OF(BITS(outer) | sign);
}

FUNCTION float exact_erf(float x) {
  const uint sign = BITS(x) & 0x80000000u;
  const float size = FLOAT_OF(BITS(x) ^ sign);
  if (size < 1.0f) {
    const float square = x * x;
    float s = -0x1.445f48p-17f;
    s = FUSED(s, square, 0x1.d88750p-14f);
    s = FUSED(s, square, -0x1.bccf66p-11f);
    s = FUSED(s, square, 0x1.562a60p-8f);
    s = FUSED(s, square, -0x1.b829c8p-6f);
    s = FUSED(s, square, 0x1.ce2f08p-4f);
    s = FUSED(s, square, -0x1.812746p-2f);
    s = FUSED(s, square, 0x1.06eba8p-3f);
    return FUSED(s, x, x);
  }
  const float a = size > 4.0f ? 4.0f : size;
  float s = 0x1.45ac78p-24f;
  s = FUSED(s, a, -0x1.bdd436p-19f);
  s = FUSED(s, a, 0x1.054c58p-14f);
  s = FUSED(s, a, -0x1.679370p-11f);
  s = FUSED(s, a, 0x1.4befb6p-8f);
  s = FUSED(s, a, -0x1.bbffa4p-6f);
  s = FUSED(s, a, 0x1.c6e1a0p-4f);
  s = FUSED(s, a, 0x1.430c46p-1f);
  s = FUSED(s, a, 0x1.2173eep+0f);
  s = FUSED(s, a, -0x1.b48d86p-12f);
  const float outer = 1.0f - exact_exp(-s);
  return FLOAT_OF(BITS(outer) | sign);
}

FUNCTION float exact_sigmoid(float x) { return OVER(1.0f, 1.0f + exact_exp(-x)); }
FUNCTION float over_root(float x) { return OVER(1.0f, ROOT(x)); }

// The functions by number, as ExactFunction counts them: what tests compare.
KERNEL map_function(int function, GLOBAL const float* x, GLOBAL float* y, int n) {
  ITEM(n);
  const float v = x[i];
  float f;
  switch (function) {
    case 0: f = exact_exp(v); break;
    case 1: f = exact_log(v); break;
    case 2: f = exact_tanh(v); break;
    case 3: f = exact_erf(v); break;
    case 4: f = over_root(v); break;
    case 5: f = ROOT(v); break;
    default: f = OVER(1.0f, v); break;
  }
  y[i] = f;
}

// Rows: sixteen neighbouring items share one, each a lane of its sums. All items of a group reach
// every barrier; `inside` says whether the row is there.
#define ROW(n)                                                     \
  const int row = ITEM_NUMBER / LANES, lane = ITEM_NUMBER % LANES; \
  const int inside = ITEM_NUMBER < (n)

FUNCTION float lanes_total(float own, SHARED_POINTER float* lanes) {
  const int at = LOCAL_NUMBER, lane = at % LANES;
  lanes[at] = own;
  BARRIER;
  for (int step = LANES / 2; step > 0; step /= 2) {
    if (lane < step) lanes[at] = lanes[at] + lanes[at + step];
    BARRIER;
  }
  const float total = lanes[at - lane];
  BARRIER;
  return total;
}

FUNCTION float lanes_largest(float own, SHARED_POINTER float* lanes) {
  const int at = LOCAL_NUMBER, lane = at % LANES;
  lanes[at] = own;
  BARRIER;
  for (int step = LANES / 2; step > 0; step /= 2) {
    if (lane < step && lanes[at + step] > lanes[at]) lanes[at] = lanes[at + step];
    BARRIER;
  }
  const float best = lanes[at - lane];
  BARRIER;
  return best;
}
)CL";

}  // namespace harmonics::inline in_runtime
