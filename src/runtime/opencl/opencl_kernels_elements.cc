#include "opencl_kernels.h"

namespace harmonics::inline in_runtime {

const char* const kElementKernels = R"CL(
#define ITEM(n) const int i = (int)get_global_id(0); if (i >= (n)) return

kernel void fill(global float* y, float value, int n) { ITEM(n); y[i] = value; }
kernel void add_to(global float* y, global const float* x, int n) { ITEM(n); y[i] += x[i]; }
kernel void add(global const float* a, global const float* b, global float* y, int n) {
  ITEM(n);
  y[i] = a[i] + b[i];
}
kernel void mul(global const float* a, global const float* b, global float* y, int n) {
  ITEM(n);
  y[i] = a[i] * b[i];
}
// y = x plus one row, again and again.
kernel void add_rows(global const float* x, global const float* row, global float* y, int width,
                     int n) {
  ITEM(n);
  y[i] = x[i] + row[i % width];
}
// Blocks of `width` elements from one row pitch to another.
kernel void copy_blocks(global const float* from, int from_offset, int from_pitch, global float* to,
                        int to_offset, int to_pitch, int width, int n) {
  ITEM(n);
  const int row = i / width, column = i % width;
  to[to_offset + row * to_pitch + column] = from[from_offset + row * from_pitch + column];
}
kernel void add_blocks(global const float* from, global float* to, int to_offset, int n) {
  ITEM(n);
  to[to_offset + i] += from[i];
}
// {batch, rows, columns} to {batch, columns, rows}.
kernel void transpose_matrices(global const float* x, global float* y, int rows, int columns, int n) {
  ITEM(n);
  const int size = rows * columns, within = i % size;
  const int column = within / rows, row = within % rows;
  y[i] = x[i - within + row * columns + column];
}

#define ACTIVATION(name, forward, backward)                                                     \
  kernel void name(global const float* xs, global float* ys, int n) {                           \
    ITEM(n);                                                                                    \
    const float x = xs[i];                                                                      \
    ys[i] = forward;                                                                            \
  }                                                                                             \
  kernel void name##_back(global const float* xs, global const float* ys,                       \
                          global const float* gs, global float* out, int n) {                   \
    ITEM(n);                                                                                    \
    const float x = xs[i], y = ys[i];                                                           \
    (void)x; (void)y;                                                                           \
    out[i] = gs[i] * (backward);                                                                \
  }
#define SELU_SCALE 1.0507009873554804934193349852946f
#define SELU_ALPHA 1.6732632423543772848170429916717f
#define LOGISTIC(x) (1.0f / (1.0f + exp(-(x))))
// A NaN must stay one, so the comparison is with what is kept.
ACTIVATION(relu, x <= 0.0f ? 0.0f : x, y > 0.0f ? 1.0f : 0.0f)
ACTIVATION(sigmoid, LOGISTIC(x), (1.0f - y) * y)
ACTIVATION(tanh_, tanh(x), 1.0f - y * y)
ACTIVATION(silu, x * LOGISTIC(x), LOGISTIC(x) * (1.0f + x * (1.0f - LOGISTIC(x))))
ACTIVATION(gelu, 0.5f * x * (1.0f + erf(x * M_SQRT1_2_F)),
           0.5f * (1.0f + erf(x * M_SQRT1_2_F)) + x * 0.3989422804014327f * exp(-0.5f * x * x))
#define GELU_SLOPE 0.7978845608028654f
#define GELU_BEND(x) tanh(GELU_SLOPE * (x + 0.044715f * x * x * x))
ACTIVATION(gelu_tanh, 0.5f * x * (1.0f + GELU_BEND(x)),
           0.5f * (1.0f + GELU_BEND(x)) + 0.5f * x * (1.0f - GELU_BEND(x) * GELU_BEND(x)) *
               GELU_SLOPE * (1.0f + 0.134145f * x * x))
ACTIVATION(quick_gelu, x * LOGISTIC(1.702f * x),
           LOGISTIC(1.702f * x) * (1.0f + 1.702f * x * (1.0f - LOGISTIC(1.702f * x))))
ACTIVATION(selu, SELU_SCALE * (x > 0.0f ? x : SELU_ALPHA * expm1(x)),
           SELU_SCALE * (x > 0.0f ? 1.0f : SELU_ALPHA * exp(x)))

kernel void prelu(global const float* x, global const float* weight, global float* y, int n) {
  ITEM(n);
  y[i] = x[i] > 0.0f ? x[i] : weight[0] * x[i];
}
kernel void prelu_back(global const float* x, global const float* weight, global const float* g,
                       global float* gx, int n) {
  ITEM(n);
  gx[i] = x[i] > 0.0f ? g[i] : weight[0] * g[i];
}
// What each element adds to the gradient of the weight.
kernel void prelu_weight_terms(global const float* x, global const float* g, global float* terms,
                               int n) {
  ITEM(n);
  terms[i] = x[i] > 0.0f ? 0.0f : x[i] * g[i];
}

// Philox4x32-10, the bits of base/random.h: block number, sample, step.
uint4 philox(uint4 c, uint key0, uint key1) {
  for (int round = 0; round < 10; ++round) {
    const uint high0 = mul_hi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
    const uint high1 = mul_hi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
    c = (uint4)(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}
kernel void dropout(global const float* x, global float* y, int row_size, uint first_sample,
                    uint step0, uint step1, uint key0, uint key1, uint threshold, float keep, int n) {
  ITEM(n);
  const int row = i / row_size, column = i % row_size;
  const uint4 four =
      philox((uint4)((uint)(column / 4), first_sample + (uint)row, step0, step1), key0, key1);
  const int lane = column % 4;
  const uint number = lane == 0 ? four.x : lane == 1 ? four.y : lane == 2 ? four.z : four.w;
  y[i] = x[i] * (number < threshold ? 0.0f : keep);
}

kernel void sgd(global float* p, global const float* gradient, float factor, float decay, float rate,
                int n) {
  ITEM(n);
  p[i] -= rate * (gradient[i] * factor + decay * p[i]);
}
kernel void sgd_momentum(global float* p, global const float* gradient, global float* momentum,
                         float factor, float decay, float rate, float keep, int n) {
  ITEM(n);
  momentum[i] = momentum[i] * keep + (gradient[i] * factor + decay * p[i]);
  p[i] -= rate * momentum[i];
}
// `shrink` is AdamW's decay of the weight itself (1 without), `decay` Adam's of the gradient.
kernel void adam(global float* p, global const float* gradient, global float* mean,
                 global float* square, float factor, float decay, float shrink, float beta1,
                 float beta2, float rate, float square_correction, float epsilon, int n) {
  ITEM(n);
  const float before = p[i] * shrink;
  const float g = gradient[i] * factor + decay * before;
  mean[i] = mean[i] * beta1 + g * (1.0f - beta1);
  square[i] = square[i] * beta2 + g * g * (1.0f - beta2);
  p[i] = before - rate * mean[i] / (sqrt(square[i]) / square_correction + epsilon);
}
)CL";

}  // namespace harmonics::inline in_runtime
