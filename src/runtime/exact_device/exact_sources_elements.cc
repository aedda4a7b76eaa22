#include "exact_sources.h"

namespace harmonics::inline in_runtime {

const char* const kExactElementSource = R"CL(
KERNEL fill(GLOBAL float* y, float value, int n) { ITEM(n); y[i] = value; }
KERNEL add(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* y, int n) {
  ITEM(n);
  y[i] = a[i] + b[i];
}
KERNEL multiply(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* y, int n) {
  ITEM(n);
  y[i] = a[i] * b[i];
}
// Blocks of `width` numbers in rows of `pitch`, in place.
KERNEL scale_blocks(GLOBAL float* x, int pitch, int width, float factor, int n) {
  ITEM(n);
  const int at = i / width * pitch + i % width;
  x[at] = x[at] * factor;
}
KERNEL copy_blocks(GLOBAL const float* from, int from_offset, int from_pitch, GLOBAL float* to,
                   int to_offset, int to_pitch, int width, int n) {
  ITEM(n);
  const int row = i / width, column = i % width;
  to[to_offset + row * to_pitch + column] = from[from_offset + row * from_pitch + column];
}
// {batch, rows, columns} to {batch, columns, rows}.
KERNEL transpose(GLOBAL const float* x, GLOBAL float* y, int rows, int columns, int n) {
  ITEM(n);
  const int area = rows * columns, within = i % area;
  y[i] = x[i - within + within % rows * columns + within / rows];
}
// The same `size` numbers of a table, again and again.
KERNEL add_table(GLOBAL const float* x, GLOBAL const float* table, int offset, int size,
                 GLOBAL float* y, int n) {
  ITEM(n);
  y[i] = x[i] + table[offset + i % size];
}
// Column by column the chain over rows, from what `to` holds on.
KERNEL add_rows(GLOBAL const float* x, int stride, int rows, GLOBAL float* to, int offset, int n) {
  ITEM(n);
  float sum = to[offset + i];
  for (int r = 0; r < rows; ++r) sum = sum + x[r * stride + i];
  to[offset + i] = sum;
}
KERNEL mean_rows(GLOBAL const float* x, int rows, int width, GLOBAL float* y, int n) {
  ITEM(n);
  const int at = i / width * rows * width + i % width;
  float sum = 0.0f;
  for (int r = 0; r < rows; ++r) sum = sum + x[at + r * width];
  y[i] = OVER(sum, (float)rows);
}
KERNEL mean_rows_back(GLOBAL const float* g, int rows, int width, GLOBAL float* y, int n) {
  ITEM(n);
  y[i] = OVER(g[i / width / rows * width + i % width], (float)rows);
}

FUNCTION float gelu_bend(float x) {
  return exact_tanh(0x1.988454p-1f * FUSED(0.044715f * (x * x), x, x));
}

// By number, as ExactActivation counts them.
FUNCTION float activation(int kind, float x) {
  switch (kind) {
    case 0: return x < 0.0f ? 0.0f : x;
    case 1: return exact_sigmoid(x);
    case 2: return exact_tanh(x);
    case 3: return 0.5f * x * (1.0f + exact_erf(x * 0x1.6a09e6p-1f));
    case 4: return 0.5f * x * (1.0f + gelu_bend(x));
    case 5: return x * exact_sigmoid(1.702f * x);
    case 6:
      return 1.0507009873554805f * (x > 0.0f ? x : 1.6732632423543772f * (exact_exp(x) - 1.0f));
    default: return x * exact_sigmoid(x);
  }
}

FUNCTION float slope(int kind, float x) {
  switch (kind) {
    case 0: return x > 0.0f ? 1.0f : 0.0f;
    case 1: {
      const float s = exact_sigmoid(x);
      return s * (1.0f - s);
    }
    case 2: {
      const float t = exact_tanh(x);
      return FUSED(-t, t, 1.0f);
    }
    case 3: {
      const float below = 0.5f * (1.0f + exact_erf(x * 0x1.6a09e6p-1f));
      return FUSED(x, 0x1.988454p-2f * exact_exp(-0.5f * (x * x)), below);
    }
    case 4: {
      const float t = gelu_bend(x);
      const float steep = 0x1.988454p-1f * FUSED(3.0f * 0.044715f, x * x, 1.0f);
      return FUSED(0.5f * x * FUSED(-t, t, 1.0f), steep, 0.5f * (1.0f + t));
    }
    case 5: {
      const float s = exact_sigmoid(1.702f * x);
      return FUSED(1.702f * x, s * (1.0f - s), s);
    }
    case 6:
      return 1.0507009873554805f * (x > 0.0f ? 1.0f : 1.6732632423543772f * exact_exp(x));
    default: {
      const float s = exact_sigmoid(x);
      return s * FUSED(x, 1.0f - s, 1.0f);
    }
  }
}

KERNEL activate(int kind, GLOBAL const float* x, GLOBAL float* y, int n) {
  ITEM(n);
  y[i] = activation(kind, x[i]);
}
KERNEL activate_back(int kind, GLOBAL const float* x, GLOBAL const float* g, GLOBAL float* y,
                     int n) {
  ITEM(n);
  y[i] = g[i] * slope(kind, x[i]);
}

KERNEL prelu(GLOBAL const float* x, GLOBAL const float* weight, GLOBAL float* y, int n) {
  ITEM(n);
  y[i] = x[i] > 0.0f ? x[i] : weight[0] * x[i];
}
KERNEL prelu_back(GLOBAL const float* x, GLOBAL const float* weight, GLOBAL const float* g,
                  GLOBAL float* y, int n) {
  ITEM(n);
  y[i] = x[i] > 0.0f ? g[i] : weight[0] * g[i];
}
// One chain over all elements: one item.
KERNEL prelu_weight(GLOBAL const float* x, GLOBAL const float* g, int count, GLOBAL float* to,
                    int n) {
  ITEM(n);
  float sum = to[0];
  for (int j = 0; j < count; ++j) {
    if (!(x[j] > 0.0f)) sum = FUSED(g[j], x[j], sum);
  }
  to[0] = sum;
}

// Philox4x32-10, the bits of base/random.h: block number, sample, step.
KERNEL dropout(GLOBAL const float* x, GLOBAL float* y, int width, uint first_sample, uint step0,
               uint step1, uint key0, uint key1, uint threshold, float keep, int n) {
  ITEM(n);
  const int row = i / width, column = i % width;
  uint c0 = (uint)(column / 4), c1 = first_sample + (uint)row, c2 = step0, c3 = step1;
  for (int round = 0; round < 10; ++round) {
    const uint high0 = HIGH_PRODUCT(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint high1 = HIGH_PRODUCT(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ key0;
    c1 = low1;
    c2 = high0 ^ c3 ^ key1;
    c3 = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const int one = column % 4;
  const uint number = one == 0 ? c0 : one == 1 ? c1 : one == 2 ? c2 : c3;
  y[i] = x[i] * (number < threshold ? 0.0f : keep);
}

KERNEL embedding(GLOBAL const LONG* ids, GLOBAL const float* table, int width, GLOBAL float* y,
                 int n) {
  ITEM(n);
  y[i] = table[(int)ids[i / width] * width + i % width];
}
// Rows in the order of the batch: an item owns a column of the table.
KERNEL embedding_back(GLOBAL const LONG* ids, int count, GLOBAL const float* g, int width,
                      GLOBAL float* table, int n) {
  ITEM(n);
  for (int r = 0; r < count; ++r) {
    const int at = (int)ids[r] * width + i;
    table[at] = table[at] + g[r * width + i];
  }
}

KERNEL sgd(GLOBAL float* value, GLOBAL const float* gradient, float factor, float decay, float rate,
           int n) {
  ITEM(n);
  const float g = FUSED(decay, value[i], gradient[i] * factor);
  value[i] = FUSED(-rate, g, value[i]);
}
KERNEL sgd_momentum(GLOBAL float* value, GLOBAL const float* gradient, GLOBAL float* first,
                    float factor, float decay, float rate, float momentum, int n) {
  ITEM(n);
  const float g = FUSED(decay, value[i], gradient[i] * factor);
  const float v = FUSED(momentum, first[i], g);
  first[i] = v;
  value[i] = FUSED(-rate, v, value[i]);
}
KERNEL adam(GLOBAL float* value, GLOBAL const float* gradient, GLOBAL float* first,
            GLOBAL float* second, float factor, float decay, float shrink, float rate, float beta1,
            float beta2, float square_root, float epsilon, int n) {
  ITEM(n);
  const float g = FUSED(decay, value[i], gradient[i] * factor);
  const float mean = FUSED(1.0f - beta1, g, beta1 * first[i]);
  const float square = FUSED(1.0f - beta2, g * g, beta2 * second[i]);
  first[i] = mean;
  second[i] = square;
  const float width = OVER(ROOT(square), square_root) + epsilon;
  value[i] = FUSED(-rate, OVER(mean, width), value[i] * shrink);
}
)CL";

}  // namespace harmonics::inline in_runtime
