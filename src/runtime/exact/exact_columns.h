// Images laid out as columns, so that a convolution is a product of matrices (private to runtime).
#pragma once

#include <cstdint>

#include <harmonics/graph/layer_type.h>

namespace harmonics::inline in_runtime {

/// The windows of a convolution over one image of `channels` planes; what lies outside is 0.
struct ExactColumns {
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t out_height = 0, out_width = 0;
  std::int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  std::int64_t before[2] = {0, 0};  ///< padding above and to the left

  /// Of one group of `query`, a conv2d whose output is {channels, height, width}.
  ExactColumns(const LayerQuery& query, const Shape& output);

  [[nodiscard]] std::int64_t area() const { return out_height * out_width; }
  [[nodiscard]] std::int64_t taps() const { return channels * kernel[0] * kernel[1]; }
  /// The columns are the image as it is.
  [[nodiscard]] bool is_image() const;

  /// columns[tap][place] of an image: taps in the order of channel, row, column of the kernel.
  void spread(const float* image, float* columns) const;
  /// Adds the columns to the image, tap after tap.
  void gather(const float* columns, float* image) const;
};

}  // namespace harmonics::inline in_runtime
