#include "exact_sources.h"

namespace harmonics::inline in_runtime {

const char* const kExactNormSource = R"CL(
KERNEL layer_norm(GLOBAL const float* x, GLOBAL const float* weight, GLOBAL const float* bias,
                  int width, float epsilon, GLOBAL float* y, GLOBAL float* means,
                  GLOBAL float* scales, int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  const int end = inside ? width : 0;
  float sum = 0.0f, squares = 0.0f;
  for (int j = lane; j < end; j += LANES) sum = sum + x[row * width + j];
  const float mean = OVER(lanes_total(sum, lanes), (float)width);
  for (int j = lane; j < end; j += LANES) {
    const float off = x[row * width + j] - mean;
    squares = FUSED(off, off, squares);
  }
  const float scale = over_root(OVER(lanes_total(squares, lanes), (float)width) + epsilon);
  for (int j = lane; j < end; j += LANES) {
    y[row * width + j] = FUSED((x[row * width + j] - mean) * scale, weight[j], bias[j]);
  }
  if (inside && lane == 0) {
    means[row] = mean;
    scales[row] = scale;
  }
}
KERNEL rms_norm(GLOBAL const float* x, GLOBAL const float* weight, int width, float epsilon,
                GLOBAL float* y, GLOBAL float* means, GLOBAL float* scales, int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  const int end = inside ? width : 0;
  float squares = 0.0f;
  for (int j = lane; j < end; j += LANES) {
    squares = FUSED(x[row * width + j], x[row * width + j], squares);
  }
  const float scale = over_root(OVER(lanes_total(squares, lanes), (float)width) + epsilon);
  for (int j = lane; j < end; j += LANES) {
    y[row * width + j] = weight[j] * (x[row * width + j] * scale);
  }
  if (inside && lane == 0) {
    means[row] = 0.0f;
    scales[row] = scale;
  }
}
// Of both; `centred` tells them apart.
KERNEL row_norm_back(GLOBAL const float* x, GLOBAL const float* weight, GLOBAL const float* means,
                     GLOBAL const float* scales, GLOBAL const float* g, int width, int centred,
                     GLOBAL float* answer, int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  const int end = inside ? width : 0;
  const float at = inside ? means[row] : 0.0f, scale = inside ? scales[row] : 0.0f;
  float sum = 0.0f, products = 0.0f;
  for (int j = lane; j < end; j += LANES) {
    const float own = g[row * width + j] * weight[j];
    sum = sum + own;
    products = FUSED(own, (x[row * width + j] - at) * scale, products);
  }
  const float mean = OVER(lanes_total(sum, lanes), (float)width);
  const float steep = OVER(lanes_total(products, lanes), (float)width);
  for (int j = lane; j < end; j += LANES) {
    const float own = g[row * width + j] * weight[j];
    const float near_ = (x[row * width + j] - at) * scale;
    answer[row * width + j] = scale * FUSED(-near_, steep, centred ? own - mean : own);
  }
}
KERNEL row_norm_columns(GLOBAL const float* x, GLOBAL const float* means,
                        GLOBAL const float* scales, GLOBAL const float* g, int rows, int width,
                        GLOBAL float* to_weight, GLOBAL float* to_bias, int has_bias, int n) {
  ITEM(n);
  float weight = to_weight[i], bias = has_bias ? to_bias[i] : 0.0f;
  for (int r = 0; r < rows; ++r) {
    const float own = g[r * width + i];
    weight = FUSED(own, (x[r * width + i] - means[r]) * scales[r], weight);
    bias = bias + own;
  }
  to_weight[i] = weight;
  if (has_bias) to_bias[i] = bias;
}

// Planes: rows of `area` numbers, one for each sample and channel.
KERNEL plane_sums(GLOBAL const float* x, int area, GLOBAL float* sums, int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  float sum = 0.0f;
  for (int j = lane; inside && j < area; j += LANES) sum = sum + x[row * area + j];
  sum = lanes_total(sum, lanes);
  if (inside && lane == 0) sums[row] = sum;
}
KERNEL plane_squares(GLOBAL const float* x, GLOBAL const float* means, int channels, int area,
                     GLOBAL float* sums, int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  const float mean = inside ? means[row % channels] : 0.0f;
  float sum = 0.0f;
  for (int j = lane; inside && j < area; j += LANES) {
    const float off = x[row * area + j] - mean;
    sum = FUSED(off, off, sum);
  }
  sum = lanes_total(sum, lanes);
  if (inside && lane == 0) sums[row] = sum;
}
KERNEL plane_products(GLOBAL const float* g, GLOBAL const float* x, GLOBAL const float* means,
                      GLOBAL const float* scales, int channels, int area, GLOBAL float* sums,
                      int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  const float mean = inside ? means[row % channels] : 0.0f;
  const float scale = inside ? scales[row % channels] : 0.0f;
  float sum = 0.0f;
  for (int j = lane; inside && j < area; j += LANES) {
    sum = FUSED(g[row * area + j], (x[row * area + j] - mean) * scale, sum);
  }
  sum = lanes_total(sum, lanes);
  if (inside && lane == 0) sums[row] = sum;
}

// Channels: the chain over samples, from 0.
FUNCTION float over_samples(GLOBAL const float* sums, int samples, int channels, int channel) {
  float sum = 0.0f;
  for (int s = 0; s < samples; ++s) sum = sum + sums[s * channels + channel];
  return sum;
}
KERNEL channel_means(GLOBAL const float* sums, int samples, float count, GLOBAL float* means,
                     int n) {
  ITEM(n);
  means[i] = OVER(over_samples(sums, samples, n, i), count);
}
KERNEL channel_scales(GLOBAL const float* sums, GLOBAL const float* means, int samples, float count,
                      float unbiased, float epsilon, float momentum, GLOBAL float* running_mean,
                      GLOBAL float* running_square, GLOBAL float* scales, int n) {
  ITEM(n);
  const float squares = over_samples(sums, samples, n, i);
  scales[i] = over_root(OVER(squares, count) + epsilon);
  running_mean[i] = FUSED(momentum, means[i] - running_mean[i], running_mean[i]);
  running_square[i] =
      FUSED(momentum, OVER(squares, unbiased) - running_square[i], running_square[i]);
}
KERNEL running_scales(GLOBAL const float* squares, float epsilon, GLOBAL float* scales, int n) {
  ITEM(n);
  scales[i] = over_root(squares[i] + epsilon);
}
KERNEL normalize_planes(GLOBAL const float* x, GLOBAL const float* means,
                        GLOBAL const float* scales, GLOBAL const float* weight,
                        GLOBAL const float* bias, int channels, int area, GLOBAL float* y, int n) {
  ITEM(n);
  const int c = i / area % channels;
  y[i] = FUSED((x[i] - means[c]) * scales[c], weight[c], bias[c]);
}
KERNEL channel_gradients(GLOBAL const float* sums, GLOBAL const float* products, int samples,
                         GLOBAL float* to_weight, GLOBAL float* to_bias, GLOBAL float* all_sums,
                         GLOBAL float* all_products, int n) {
  ITEM(n);
  const float sum = over_samples(sums, samples, n, i);
  const float product_sum = over_samples(products, samples, n, i);
  to_weight[i] = to_weight[i] + product_sum;
  to_bias[i] = to_bias[i] + sum;
  all_sums[i] = sum;
  all_products[i] = product_sum;
}
KERNEL normalize_planes_back(GLOBAL const float* x, GLOBAL const float* g,
                             GLOBAL const float* means, GLOBAL const float* scales,
                             GLOBAL const float* weight, GLOBAL const float* sums,
                             GLOBAL const float* products, float count, int channels, int area,
                             GLOBAL float* y, int n) {
  ITEM(n);
  const int c = i / area % channels;
  const float near_ = (x[i] - means[c]) * scales[c];
  const float inner = FUSED(-near_, OVER(products[c], count), g[i] - OVER(sums[c], count));
  y[i] = weight[c] * scales[c] * inner;
}
)CL";

const char* const kExactRowSource = R"CL(
// Over the first row % period + 1 numbers of a row, or all of them where period is 0; the others
// become 0. May work in place: a lane reads and writes its own numbers alone.
KERNEL softmax(GLOBAL const float* x, int width, int period, GLOBAL float* y, int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  const int seen = !inside ? 0 : period > 0 ? row % period + 1 : width;
  float best = -INFINITY, sum = 0.0f;
  for (int j = lane; j < seen; j += LANES) best = x[row * width + j] > best ? x[row * width + j] : best;
  best = lanes_largest(best, lanes);
  for (int j = lane; j < seen; j += LANES) {
    const float value = exact_exp(x[row * width + j] - best);
    y[row * width + j] = value;
    sum = sum + value;
  }
  sum = lanes_total(sum, lanes);
  for (int j = lane; inside && j < width; j += LANES) {
    y[row * width + j] = j < seen ? OVER(y[row * width + j], sum) : 0.0f;
  }
}
KERNEL softmax_back(GLOBAL const float* y, GLOBAL const float* g, int width, int period,
                    GLOBAL float* answer, int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  const int seen = !inside ? 0 : period > 0 ? row % period + 1 : width;
  float sum = 0.0f;
  for (int j = lane; j < seen; j += LANES) {
    sum = FUSED(y[row * width + j], g[row * width + j], sum);
  }
  sum = lanes_total(sum, lanes);
  for (int j = lane; inside && j < width; j += LANES) {
    const int at = row * width + j;
    answer[at] = j < seen ? y[at] * (g[at] - sum) : 0.0f;
  }
}

#ifdef HAS_DOUBLE
// The squares of one parameter in float64, where they are exact: one group, of which sixteen items
// are the lanes.
KERNEL square_sum(GLOBAL const float* x, int count, GLOBAL double* to, int place, int n) {
  SHARED double squares[LANES];
  const int lane = ITEM_NUMBER;
  if (lane < LANES) {
    double sum = 0.0;
    for (int j = lane; j < count; j += LANES) {
      const double value = x[j];
      sum = sum + value * value;
    }
    squares[lane] = sum;
  }
  BARRIER;
  for (int step = LANES / 2; step > 0; step /= 2) {
    if (lane < step) squares[lane] = squares[lane] + squares[lane + step];
    BARRIER;
  }
  if (lane == 0) to[place] = squares[0];
}
#endif

// The id that a row's loss looks up: its own, or with `length` that of the row after it in the
// sample; -1 for none.
FUNCTION LONG id_of(GLOBAL const LONG* ids, int row, int length) {
  if (length == 0) return ids[row];
  return row % length + 1 < length ? ids[row + 1] : -1;
}

// right: 1 where the largest of the row (of equals the first) is what is wanted, 0 where it is not,
// -1 where the row has no id.
KERNEL cross_entropy(GLOBAL const float* x, GLOBAL const LONG* ids, GLOBAL const float* shares,
                     int has_ids, int classes, int length, GLOBAL float* each, GLOBAL int* right,
                     int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  const int end = inside ? classes : 0;
  float best = -INFINITY, sum = 0.0f;
  for (int j = lane; j < end; j += LANES) {
    best = x[row * classes + j] > best ? x[row * classes + j] : best;
  }
  best = lanes_largest(best, lanes);
  for (int j = lane; j < end; j += LANES) sum = sum + exact_exp(x[row * classes + j] - best);
  sum = lanes_total(sum, lanes);
  if (!inside || lane != 0) return;
  const float all = best + exact_log(sum);
  int own = 0;
  while (own + 1 < classes && x[row * classes + own] != best) ++own;
  if (has_ids) {
    const LONG id = id_of(ids, row, length);
    each[row] = id < 0 ? 0.0f : all - x[row * classes + (int)id];
    right[row] = id < 0 ? -1 : id == own ? 1 : 0;
    return;
  }
  float loss = 0.0f;
  int wanted = 0;
  for (int j = 0; j < classes; ++j) {
    const float share = shares[row * classes + j];
    loss = FUSED(share, all - x[row * classes + j], loss);
    if (share > shares[row * classes + wanted]) wanted = j;
  }
  each[row] = loss;
  right[row] = wanted == own ? 1 : 0;
}

KERNEL cross_entropy_back(GLOBAL const float* x, GLOBAL const LONG* ids, GLOBAL const float* shares,
                          int has_ids, int classes, int length, float weight, GLOBAL float* y,
                          int n) {
  SHARED float lanes[GROUP];
  ROW(n);
  const int end = inside ? classes : 0;
  float best = -INFINITY, sum = 0.0f;
  for (int j = lane; j < end; j += LANES) {
    best = x[row * classes + j] > best ? x[row * classes + j] : best;
  }
  best = lanes_largest(best, lanes);
  for (int j = lane; j < end; j += LANES) {
    const float value = exact_exp(x[row * classes + j] - best);
    y[row * classes + j] = value;
    sum = sum + value;
  }
  sum = lanes_total(sum, lanes);
  if (!inside) return;
  LONG id = 0;
  float share_sum = 0.0f;
  if (has_ids) {
    id = id_of(ids, row, length);
  } else {
    for (int j = 0; j < classes; ++j) share_sum = share_sum + shares[row * classes + j];
  }
  if (length > 0) {
    int kept = 0;
    const int begin = row / length * length;
    for (int r = begin; r + 1 < begin + length; ++r) kept += ids[r + 1] >= 0 ? 1 : 0;
    weight = OVER(weight, (float)(kept > 1 ? kept : 1));
  }
  for (int j = lane; j < end; j += LANES) {
    const int at = row * classes + j;
    float value = OVER(y[at], sum);
    if (!has_ids) value = FUSED(value, share_sum, -shares[at]);
    if (has_ids && id < 0) value = 0.0f;
    if (has_ids && id == j) value = value - 1.0f;
    y[at] = length > 0 && id < 0 ? 0.0f : value * weight;
  }
}

// mse where `squares`, else bce.
KERNEL element_loss(GLOBAL const float* x, GLOBAL const float* t, int squares, GLOBAL float* each,
                    int n) {
  ITEM(n);
  const float off = x[i] - t[i];
  if (squares) {
    each[i] = off * off;
    return;
  }
  const float log_ = exact_log(x[i]), rest = exact_log(1.0f - x[i]);
  const float one = log_ < -100.0f ? -100.0f : log_, other = rest < -100.0f ? -100.0f : rest;
  each[i] = -FUSED(t[i], one, (1.0f - t[i]) * other);
}
KERNEL element_loss_back(GLOBAL const float* x, GLOBAL const float* t, int squares, float weight,
                         GLOBAL float* y, int n) {
  ITEM(n);
  const float off = x[i] - t[i], spread_ = (1.0f - x[i]) * x[i];
  y[i] = weight * (squares ? 2.0f * off : OVER(off, spread_ < 1e-12f ? 1e-12f : spread_));
}
// The chain over a sample's rows, divided by their number: of those that have an id where `kept`.
KERNEL sample_means(GLOBAL const float* each, GLOBAL const int* right, int width, int kept,
                    GLOBAL float* means, int n) {
  ITEM(n);
  float sum = 0.0f;
  int count = 0;
  for (int j = 0; j < width; ++j) {
    sum = sum + each[i * width + j];
    if (kept && right[i * width + j] >= 0) ++count;
  }
  means[i] = OVER(sum, (float)(!kept ? width : count > 1 ? count : 1));
}
)CL";

}  // namespace harmonics::inline in_runtime
