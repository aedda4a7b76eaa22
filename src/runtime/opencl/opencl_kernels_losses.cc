#include "opencl_kernels.h"

namespace harmonics::inline in_runtime {

const char* const kLossKernels = R"CL(
#define LOG_SUM(x, width, most, sum)                                   \
  float most = (x)[0], sum = 0.0f;                                     \
  for (int k = 1; k < (width); ++k) most = fmax(most, (x)[k]);         \
  for (int k = 0; k < (width); ++k) sum += exp((x)[k] - most)

int best_of(global const float* x, int width) {
  int best = 0;
  for (int k = 1; k < width; ++k) {
    if (x[k] > x[best]) best = k;
  }
  return best;
}

// One item per row. `right`: 1 for a right prediction, 0 for a wrong one, -1 for an id that is no
// class.
kernel void cross_entropy_ids(global const float* x, global const long* ids, global float* losses,
                              global int* right, int classes, int n) {
  ITEM(n);
  global const float* row = x + i * classes;
  const long id = ids[i];
  if (id < 0 || id >= classes) {
    losses[i] = NAN;
    right[i] = -1;
    return;
  }
  LOG_SUM(row, classes, most, sum);
  losses[i] = most + log(sum) - row[id];
  right[i] = best_of(row, classes) == (int)id;
}
kernel void cross_entropy_ids_back(global const float* x, global const long* ids, global float* gx,
                                   int classes, float scale, int n) {
  ITEM(n);
  global const float* row = x + i * classes;
  LOG_SUM(row, classes, most, sum);
  for (int k = 0; k < classes; ++k) {
    gx[i * classes + k] = scale * (exp(row[k] - most) / sum - (k == ids[i] ? 1.0f : 0.0f));
  }
}
kernel void cross_entropy_shares(global const float* x, global const float* shares,
                                 global float* losses, global int* right, int classes, int n) {
  ITEM(n);
  global const float* row = x + i * classes;
  global const float* target = shares + i * classes;
  LOG_SUM(row, classes, most, sum);
  float loss = 0.0f;
  for (int k = 0; k < classes; ++k) loss += target[k] * (most + log(sum) - row[k]);
  losses[i] = loss;
  right[i] = best_of(row, classes) == best_of(target, classes);
}
kernel void cross_entropy_shares_back(global const float* x, global const float* shares,
                                      global float* gx, int classes, float scale, int n) {
  ITEM(n);
  global const float* row = x + i * classes;
  global const float* target = shares + i * classes;
  LOG_SUM(row, classes, most, sum);
  float whole = 0.0f;
  for (int k = 0; k < classes; ++k) whole += target[k];
  for (int k = 0; k < classes; ++k) {
    gx[i * classes + k] = scale * (exp(row[k] - most) / sum * whole - target[k]);
  }
}
// One item per sample: the mean over its rows.
kernel void mean_rows(global const float* x, global float* y, int rows, int n) {
  ITEM(n);
  float sum = 0.0f;
  for (int k = 0; k < rows; ++k) sum += x[i * rows + k];
  y[i] = sum / rows;
}

kernel void mse(global const float* x, global const float* target, global float* losses, int width,
                int n) {
  ITEM(n);
  float sum = 0.0f;
  for (int k = i * width; k < (i + 1) * width; ++k) sum += (x[k] - target[k]) * (x[k] - target[k]);
  losses[i] = sum / width;
}
kernel void mse_back(global const float* x, global const float* target, global float* gx,
                     float scale, int n) {
  ITEM(n);
  gx[i] = 2.0f * scale * (x[i] - target[i]);
}
// Logarithms stop at -100, as libtorch's do; a NaN stays one.
#define STOPPED_LOG(x) (log(x) < -100.0f ? -100.0f : log(x))
kernel void bce(global const float* x, global const float* target, global float* losses, int width,
                int n) {
  ITEM(n);
  float sum = 0.0f;
  for (int k = i * width; k < (i + 1) * width; ++k) {
    sum -= target[k] * STOPPED_LOG(x[k]) + (1.0f - target[k]) * STOPPED_LOG(1.0f - x[k]);
  }
  losses[i] = sum / width;
}
kernel void bce_back(global const float* x, global const float* target, global float* gx,
                     float scale, int n) {
  ITEM(n);
  gx[i] = scale * (x[i] - target[i]) / fmax((1.0f - x[i]) * x[i], 1e-12f);
}
)CL";

}  // namespace harmonics::inline in_runtime
