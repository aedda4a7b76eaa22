#include "opencl_kernels.h"

namespace harmonics::inline in_runtime {

const char* const kRowKernels = R"CL(
// Sum over the work-group, in a fixed tree; every item gets it.
float group_sum(float value, local float* scratch) {
  const int lane = (int)get_local_id(0);
  scratch[lane] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = GROUP / 2; width > 0; width /= 2) {
    if (lane < width) scratch[lane] += scratch[lane + width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float sum = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

// out[item] += the sum of x[item * item_pitch + k * pitch] over k; one group per item.
kernel void add_sums(global const float* x, global float* out, int count, int item_pitch, int pitch,
                     int n) {
  local float scratch[GROUP];
  const int item = (int)get_group_id(0);
  float sum = 0.0f;
  for (int k = (int)get_local_id(0); k < count; k += GROUP) sum += x[item * item_pitch + k * pitch];
  sum = group_sum(sum, scratch);
  if (get_local_id(0) == 0) out[item] += sum;
}

kernel void softmax(global const float* x, global float* y, int width, int n) {
  ITEM(n);
  global const float* from = x + i * width;
  global float* to = y + i * width;
  float most = from[0], sum = 0.0f;
  for (int k = 1; k < width; ++k) most = fmax(most, from[k]);
  for (int k = 0; k < width; ++k) sum += to[k] = exp(from[k] - most);
  for (int k = 0; k < width; ++k) to[k] /= sum;
}
kernel void softmax_back(global const float* y, global const float* g, global float* gx, int width,
                         int n) {
  ITEM(n);
  const int first = i * width;
  float sum = 0.0f;
  for (int k = first; k < first + width; ++k) sum += y[k] * g[k];
  for (int k = first; k < first + width; ++k) gx[k] = y[k] * (g[k] - sum);
}

// {batch, length, width} to the mean over the length.
kernel void mean_axis(global const float* x, global float* y, int length, int width, int n) {
  ITEM(n);
  const int row = i / width, column = i % width;
  float sum = 0.0f;
  for (int k = 0; k < length; ++k) sum += x[(row * length + k) * width + column];
  y[i] = sum / length;
}
kernel void mean_axis_back(global const float* g, global float* gx, int length, int width, int n) {
  ITEM(n);
  gx[i] = g[i / (length * width) * width + i % width] / length;
}

kernel void layer_norm(global const float* x, global const float* weight, global const float* bias,
                       global float* y, global float* means, global float* scales, int width,
                       float epsilon, int n) {
  ITEM(n);
  global const float* from = x + i * width;
  float mean = 0.0f, square = 0.0f;
  for (int k = 0; k < width; ++k) mean += from[k];
  mean /= width;
  for (int k = 0; k < width; ++k) square += (from[k] - mean) * (from[k] - mean);
  const float scale = 1.0f / sqrt(square / width + epsilon);
  for (int k = 0; k < width; ++k) {
    y[i * width + k] = (from[k] - mean) * scale * weight[k] + bias[k];
  }
  means[i] = mean;
  scales[i] = scale;
}
kernel void layer_norm_back(global const float* x, global const float* weight,
                            global const float* means, global const float* scales,
                            global const float* g, global float* gx, int width, int n) {
  ITEM(n);
  const int first = i * width;
  const float mean = means[i], scale = scales[i];
  float sum = 0.0f, product = 0.0f;
  for (int k = 0; k < width; ++k) {
    const float term = g[first + k] * weight[k];
    sum += term;
    product += term * (x[first + k] - mean) * scale;
  }
  for (int k = 0; k < width; ++k) {
    const float unit = (x[first + k] - mean) * scale;
    gx[first + k] = scale * (g[first + k] * weight[k] - (sum + unit * product) / width);
  }
}
// One group per column of `rows` rows.
kernel void layer_norm_weights(global const float* x, global const float* means,
                               global const float* scales, global const float* g,
                               global float* weight_gradient, global float* bias_gradient, int rows,
                               int n) {
  local float scratch[GROUP];
  const int column = (int)get_group_id(0);
  float sum = 0.0f, product = 0.0f;
  for (int row = (int)get_local_id(0); row < rows; row += GROUP) {
    const float term = g[row * n + column];
    sum += term;
    product += term * (x[row * n + column] - means[row]) * scales[row];
  }
  sum = group_sum(sum, scratch);
  product = group_sum(product, scratch);
  if (get_local_id(0) == 0) {
    weight_gradient[column] += product;
    bias_gradient[column] += sum;
  }
}

// One group per channel of {batch, channels, area}; the running statistics move towards the batch's.
kernel void batch_norm_statistics(global const float* x, global float* means, global float* scales,
                                  global float* running_mean, global float* running_var, int batch,
                                  int area, float momentum, float epsilon, int n) {
  local float scratch[GROUP];
  const int channel = (int)get_group_id(0);
  const int count = batch * area;
  float sum = 0.0f, square = 0.0f;
  for (int k = (int)get_local_id(0); k < count; k += GROUP) {
    sum += x[(k / area * n + channel) * area + k % area];
  }
  const float mean = group_sum(sum, scratch) / count;
  for (int k = (int)get_local_id(0); k < count; k += GROUP) {
    const float off = x[(k / area * n + channel) * area + k % area] - mean;
    square += off * off;
  }
  square = group_sum(square, scratch);
  if (get_local_id(0) == 0) {
    means[channel] = mean;
    scales[channel] = 1.0f / sqrt(square / count + epsilon);
    running_mean[channel] = (1.0f - momentum) * running_mean[channel] + momentum * mean;
    running_var[channel] =
        (1.0f - momentum) * running_var[channel] + momentum * (square / (count - 1));
  }
}
kernel void batch_norm_scales(global const float* running_var, global float* scales, float epsilon,
                              int n) {
  ITEM(n);
  scales[i] = 1.0f / sqrt(running_var[i] + epsilon);
}
kernel void batch_norm(global const float* x, global const float* means, global const float* scales,
                       global const float* weight, global const float* bias, global float* y,
                       int channels, int area, int n) {
  ITEM(n);
  const int channel = i / area % channels;
  y[i] = (x[i] - means[channel]) * scales[channel] * weight[channel] + bias[channel];
}
// Per channel: the gradients' sum and their sum times the normalised values.
kernel void batch_norm_sums(global const float* x, global const float* means,
                            global const float* scales, global const float* g, global float* sums,
                            global float* products, int batch, int area, int n) {
  local float scratch[GROUP];
  const int channel = (int)get_group_id(0);
  const int count = batch * area;
  float sum = 0.0f, product = 0.0f;
  for (int k = (int)get_local_id(0); k < count; k += GROUP) {
    const int at = (k / area * n + channel) * area + k % area;
    sum += g[at];
    product += g[at] * (x[at] - means[channel]) * scales[channel];
  }
  sum = group_sum(sum, scratch);
  product = group_sum(product, scratch);
  if (get_local_id(0) == 0) {
    sums[channel] = sum;
    products[channel] = product;
  }
}
kernel void batch_norm_back(global const float* x, global const float* means,
                            global const float* scales, global const float* weight,
                            global const float* sums, global const float* products,
                            global const float* g, global float* gx, int channels, int area,
                            int count, int n) {
  ITEM(n);
  const int channel = i / area % channels;
  const float unit = (x[i] - means[channel]) * scales[channel];
  gx[i] = scales[channel] * weight[channel] *
          (g[i] - (sums[channel] + unit * products[channel]) / count);
}
)CL";

}  // namespace harmonics::inline in_runtime
