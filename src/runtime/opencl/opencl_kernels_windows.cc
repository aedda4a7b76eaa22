#include "opencl_kernels.h"

namespace harmonics::inline in_runtime {

const char* const kWindowKernels = R"CL(
// The patches of `samples` images as columns: {channels * kernel area, samples * output area}. The
// image's channels begin at `first_channel` of `all_channels`.
kernel void image_to_columns(global const float* x, global float* columns, int first_sample,
                             int samples, int first_channel, int all_channels, int height, int width,
                             int kernel_h, int kernel_w, int stride_h, int stride_w, int padding_h,
                             int padding_w, int out_h, int out_w, int n) {
  ITEM(n);
  const int area = out_h * out_w, pitch = samples * area;
  const int tap = i / pitch, column = i % pitch;
  const int sample = column / area, place = column % area;
  const int kx = tap % kernel_w, ky = tap / kernel_w % kernel_h;
  const int channel = tap / (kernel_w * kernel_h);
  const int row = place / out_w * stride_h - padding_h + ky;
  const int at = place % out_w * stride_w - padding_w + kx;
  const int image = (first_sample + sample) * all_channels + first_channel + channel;
  columns[i] = row >= 0 && row < height && at >= 0 && at < width
                   ? x[(image * height + row) * width + at]
                   : 0.0f;
}
// The way back: each pixel adds up what its patches hold.
kernel void columns_to_image(global const float* columns, global float* x, int first_sample,
                             int samples, int first_channel, int channels, int all_channels,
                             int height, int width, int kernel_h, int kernel_w, int stride_h,
                             int stride_w, int padding_h, int padding_w, int out_h, int out_w,
                             int n) {
  ITEM(n);
  const int at = i % width, row = i / width % height;
  const int channel = i / (width * height) % channels, sample = i / (width * height * channels);
  const int area = out_h * out_w, pitch = samples * area;
  float sum = 0.0f;
  for (int ky = 0; ky < kernel_h; ++ky) {
    const int y = row + padding_h - ky;
    if (y < 0 || y % stride_h != 0 || y / stride_h >= out_h) continue;
    for (int kx = 0; kx < kernel_w; ++kx) {
      const int z = at + padding_w - kx;
      if (z < 0 || z % stride_w != 0 || z / stride_w >= out_w) continue;
      const int tap = (channel * kernel_h + ky) * kernel_w + kx;
      sum += columns[tap * pitch + sample * area + y / stride_h * out_w + z / stride_w];
    }
  }
  const int image = (first_sample + sample) * all_channels + first_channel + channel;
  x[(image * height + row) * width + at] = sum;
}
// {channels, samples * area} into {batch, all_channels, area}, and a bias where has_bias.
kernel void columns_to_batch(global const float* columns, global const float* bias, int has_bias,
                             global float* y, int first_sample, int samples, int first_channel,
                             int all_channels, int area, int n) {
  ITEM(n);
  const int place = i % area, sample = i / area % samples, channel = i / (area * samples);
  const float value = columns[i] + (has_bias ? bias[first_channel + channel] : 0.0f);
  y[((first_sample + sample) * all_channels + first_channel + channel) * area + place] = value;
}
kernel void batch_to_columns(global const float* y, global float* columns, int first_sample,
                             int samples, int first_channel, int all_channels, int area, int n) {
  ITEM(n);
  const int place = i % area, sample = i / area % samples, channel = i / (area * samples);
  columns[i] = y[((first_sample + sample) * all_channels + first_channel + channel) * area + place];
}

#define WINDOW_ARGUMENTS                                                                        \
  int height, int width, int kernel_h, int kernel_w, int stride_h, int stride_w, int padding_h, \
      int padding_w, int out_h, int out_w, int n
// One item per output; `best` remembers which input won.
kernel void max_pool(global const float* x, global float* y, global int* best, WINDOW_ARGUMENTS) {
  ITEM(n);
  const int out_x = i % out_w, out_y = i / out_w % out_h, image = i / (out_w * out_h);
  const int top = out_y * stride_h - padding_h, left = out_x * stride_w - padding_w;
  global const float* from = x + image * height * width;
  float most = -INFINITY;
  int where = -1;
  for (int row = max(top, 0); row < min(top + kernel_h, height); ++row) {
    for (int at = max(left, 0); at < min(left + kernel_w, width); ++at) {
      const float value = from[row * width + at];
      if (where >= 0 && !(value > most) && !isnan(value)) continue;
      most = value;
      where = row * width + at;
    }
  }
  y[i] = most;
  best[i] = where;
}
// One item per input.
kernel void max_pool_back(global const float* g, global const int* best, global float* gx,
                          WINDOW_ARGUMENTS) {
  ITEM(n);
  const int at = i % width, row = i / width % height, image = i / (width * height);
  const int y_end = min((row + padding_h) / stride_h + 1, out_h);
  const int x_end = min((at + padding_w) / stride_w + 1, out_w);
  const int y_first = max(row + padding_h - kernel_h + stride_h, 0) / stride_h;
  const int x_first = max(at + padding_w - kernel_w + stride_w, 0) / stride_w;
  float sum = 0.0f;
  for (int y = y_first; y < y_end; ++y) {
    for (int z = x_first; z < x_end; ++z) {
      const int out = (image * out_h + y) * out_w + z;
      if (best[out] == row * width + at) sum += g[out];
    }
  }
  gx[i] = sum;
}
// Padding counts as zeros, as libtorch's default does.
kernel void avg_pool(global const float* x, global float* y, WINDOW_ARGUMENTS) {
  ITEM(n);
  const int out_x = i % out_w, out_y = i / out_w % out_h, image = i / (out_w * out_h);
  const int top = out_y * stride_h - padding_h, left = out_x * stride_w - padding_w;
  global const float* from = x + image * height * width;
  float sum = 0.0f;
  for (int row = max(top, 0); row < min(top + kernel_h, height); ++row) {
    for (int at = max(left, 0); at < min(left + kernel_w, width); ++at) sum += from[row * width + at];
  }
  y[i] = sum / (kernel_h * kernel_w);
}
kernel void avg_pool_back(global const float* g, global float* gx, WINDOW_ARGUMENTS) {
  ITEM(n);
  const int at = i % width, row = i / width % height, image = i / (width * height);
  const int y_end = min((row + padding_h) / stride_h + 1, out_h);
  const int x_end = min((at + padding_w) / stride_w + 1, out_w);
  const int y_first = max(row + padding_h - kernel_h + stride_h, 0) / stride_h;
  const int x_first = max(at + padding_w - kernel_w + stride_w, 0) / stride_w;
  float sum = 0.0f;
  for (int y = y_first; y < y_end; ++y) {
    for (int z = x_first; z < x_end; ++z) sum += g[(image * out_h + y) * out_w + z];
  }
  gx[i] = sum / (kernel_h * kernel_w);
}

// Adaptive windows: output k of `out` covers [k * size / out, ceil((k + 1) * size / out)).
#define FIRST(k, size, out) ((k) * (size) / (out))
#define LAST(k, size, out) ((((k) + 1) * (size) + (out) - 1) / (out))
kernel void adaptive_avg_pool(global const float* x, global float* y, int height, int width,
                              int out_h, int out_w, int n) {
  ITEM(n);
  const int out_x = i % out_w, out_y = i / out_w % out_h, image = i / (out_w * out_h);
  const int top = FIRST(out_y, height, out_h), bottom = LAST(out_y, height, out_h);
  const int left = FIRST(out_x, width, out_w), right = LAST(out_x, width, out_w);
  float sum = 0.0f;
  for (int row = top; row < bottom; ++row) {
    for (int at = left; at < right; ++at) sum += x[(image * height + row) * width + at];
  }
  y[i] = sum / ((bottom - top) * (right - left));
}
kernel void adaptive_avg_pool_back(global const float* g, global float* gx, int height, int width,
                                   int out_h, int out_w, int n) {
  ITEM(n);
  const int at = i % width, row = i / width % height, image = i / (width * height);
  float sum = 0.0f;
  for (int y = 0; y < out_h; ++y) {
    const int top = FIRST(y, height, out_h), bottom = LAST(y, height, out_h);
    if (row < top || row >= bottom) continue;
    for (int z = 0; z < out_w; ++z) {
      const int left = FIRST(z, width, out_w), right = LAST(z, width, out_w);
      if (at < left || at >= right) continue;
      sum += g[(image * out_h + y) * out_w + z] / ((bottom - top) * (right - left));
    }
  }
  gx[i] = sum;
}
kernel void adaptive_max_pool(global const float* x, global float* y, global int* best, int height,
                              int width, int out_h, int out_w, int n) {
  ITEM(n);
  const int out_x = i % out_w, out_y = i / out_w % out_h, image = i / (out_w * out_h);
  float most = -INFINITY;
  int where = -1;
  for (int row = FIRST(out_y, height, out_h); row < LAST(out_y, height, out_h); ++row) {
    for (int at = FIRST(out_x, width, out_w); at < LAST(out_x, width, out_w); ++at) {
      const float value = x[(image * height + row) * width + at];
      if (where >= 0 && !(value > most) && !isnan(value)) continue;
      most = value;
      where = row * width + at;
    }
  }
  y[i] = most;
  best[i] = where;
}
kernel void adaptive_max_pool_back(global const float* g, global const int* best, global float* gx,
                                   int height, int width, int out_h, int out_w, int n) {
  ITEM(n);
  const int place = i % (width * height), image = i / (width * height);
  float sum = 0.0f;
  for (int out = image * out_h * out_w; out < (image + 1) * out_h * out_w; ++out) {
    if (best[out] == place) sum += g[out];
  }
  gx[i] = sum;
}
)CL";

}  // namespace harmonics::inline in_runtime
