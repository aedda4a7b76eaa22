#include "exact_columns.h"

#include <algorithm>

namespace harmonics::inline in_runtime {
namespace {

void take_pair(const LayerQuery& query, std::string_view name, std::int64_t (&to)[2]) {
  if (!query.has(name)) return;
  const Shape value = query.list(name);
  to[0] = value[0];
  to[1] = value.size() > 1 ? value[1] : value[0];
}

/// The places [first, end) of an axis whose windows reach inside the image with this tap.
struct Inside {
  std::int64_t first, end;

  Inside(const ExactColumns& c, int axis, std::int64_t offset) {
    const std::int64_t extent = axis == 0 ? c.height : c.width;
    const std::int64_t places = axis == 0 ? c.out_height : c.out_width, pace = c.stride[axis];
    first = offset >= 0 ? 0 : (-offset + pace - 1) / pace;
    end = extent - offset <= 0 ? 0 : (extent - offset + pace - 1) / pace;
    end = std::min(end, places);
    first = std::min(first, end);
  }
};

}  // namespace

ExactColumns::ExactColumns(const LayerQuery& query, const Shape& output)
    : channels(query.inputs[0].shape[0] / query.integer("groups")),
      height(query.inputs[0].shape[1]),
      width(query.inputs[0].shape[2]),
      out_height(output[1]),
      out_width(output[2]) {
  take_pair(query, "kernel", kernel);
  take_pair(query, "stride", stride);
  take_pair(query, "dilation", dilation);
  take_pair(query, "padding", before);  // the first two of four are these sides
}

bool ExactColumns::is_image() const {
  return kernel[0] == 1 && kernel[1] == 1 && stride[0] == 1 && stride[1] == 1 && before[0] == 0 &&
         before[1] == 0 && out_height == height && out_width == width;
}

void ExactColumns::spread(const float* image, float* columns) const {
  std::fill(columns, columns + taps() * area(), 0.0F);
  const std::int64_t window = kernel[0] * kernel[1];
  for (std::int64_t tap = 0; tap < taps(); ++tap) {
    const std::int64_t top = tap % window / kernel[1] * dilation[0] - before[0];
    const std::int64_t left = tap % kernel[1] * dilation[1] - before[1];
    const Inside rows(*this, 0, top), places(*this, 1, left);
    const float* const plane = image + tap / window * height * width;
    for (std::int64_t y = rows.first; y < rows.end; ++y) {
      const float* const from = plane + (y * stride[0] + top) * width + left;
      float* const to = columns + tap * area() + y * out_width;
      for (std::int64_t x = places.first; x < places.end; ++x) to[x] = from[x * stride[1]];
    }
  }
}

void ExactColumns::gather(const float* columns, float* image) const {
  const std::int64_t window = kernel[0] * kernel[1];
  for (std::int64_t tap = 0; tap < taps(); ++tap) {
    const std::int64_t top = tap % window / kernel[1] * dilation[0] - before[0];
    const std::int64_t left = tap % kernel[1] * dilation[1] - before[1];
    const Inside rows(*this, 0, top), places(*this, 1, left);
    float* const plane = image + tap / window * height * width;
    for (std::int64_t y = rows.first; y < rows.end; ++y) {
      float* const to = plane + (y * stride[0] + top) * width + left;
      const float* const from = columns + tap * area() + y * out_width;
      for (std::int64_t x = places.first; x < places.end; ++x) {
        to[x * stride[1]] = to[x * stride[1]] + from[x];
      }
    }
  }
}

}  // namespace harmonics::inline in_runtime
