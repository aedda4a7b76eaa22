#include "tensor_axis.h"

#include <cstring>

#include <harmonics/base/error.h>

namespace harmonics::inline in_dispatch {
namespace {

// A tensor seen from an axis: `outer` blocks of `length` rows of `row_bytes` each.
struct AxisView {
  AxisView(const Tensor& tensor, std::size_t axis)
      : length(static_cast<std::size_t>(tensor.shape()[axis])),
        row_bytes(dtype_size(tensor.dtype())) {
    for (std::size_t a = 0; a < tensor.shape().size(); ++a) {
      const auto size = static_cast<std::size_t>(tensor.shape()[a]);
      if (a < axis) outer *= size;
      if (a > axis) row_bytes *= size;
    }
  }
  std::size_t outer = 1;
  std::size_t length;
  std::size_t row_bytes;
};

}  // namespace

std::optional<std::size_t> axis_of(const Shape& shape, int axis) {
  const auto rank = static_cast<int>(shape.size());
  const int counted = axis < 0 ? axis + rank : axis;
  if (counted < 0 || counted >= rank) return std::nullopt;
  return static_cast<std::size_t>(counted);
}

std::size_t length_along(const Shape& shape, int axis) {
  const std::optional<std::size_t> there = axis_of(shape, axis);
  return there ? static_cast<std::size_t>(shape[*there]) : 1;
}

Tensor slice_along(const Tensor& tensor, std::size_t axis, RowRange range) {
  if (axis == 0) {
    return tensor.slice(static_cast<std::int64_t>(range.begin),
                        static_cast<std::int64_t>(range.end));
  }
  Shape shape = tensor.shape();
  shape[axis] = static_cast<std::int64_t>(range.size());
  Tensor out = Tensor::empty(std::move(shape), tensor.dtype());
  const AxisView view(tensor, axis);
  const std::byte* from = tensor.bytes().data() + range.begin * view.row_bytes;
  std::byte* to = out.mutable_bytes().data();
  const std::size_t bytes = range.size() * view.row_bytes;
  for (std::size_t block = 0; block < view.outer; ++block) {
    std::memcpy(to, from, bytes);
    from += view.length * view.row_bytes;
    to += bytes;
  }
  return out;
}

void write_along(Tensor& whole, const Tensor& part, std::size_t axis, RowRange rows) {
  Shape wanted = whole.shape();
  wanted[axis] = part.shape().size() == wanted.size() ? part.shape()[axis] : 1;
  const bool fills = wanted[axis] == 1;
  if (part.shape() != wanted || part.dtype() != whole.dtype() ||
      part.device().kind != DeviceKind::kCpu ||
      (!fills && static_cast<std::size_t>(wanted[axis]) != rows.size())) {
    fail(ErrorCode::kInvalidArgument,
         "a part of {} for {} rows does not fit into {}: all parts must have one type and agree in "
         "all axes but number {}",
         spec_text(part.spec()), rows.size(), spec_text(whole.spec()), axis);
  }
  const AxisView view(whole, axis);
  const std::byte* from = part.bytes().data();
  std::byte* to = whole.mutable_bytes().data() + rows.begin * view.row_bytes;
  for (std::size_t block = 0; block < view.outer; ++block) {
    if (fills) {
      for (std::size_t row = 0; row < rows.size(); ++row) {
        std::memcpy(to + row * view.row_bytes, from, view.row_bytes);
      }
      from += view.row_bytes;
    } else {
      std::memcpy(to, from, rows.size() * view.row_bytes);
      from += rows.size() * view.row_bytes;
    }
    to += view.length * view.row_bytes;
  }
}

}  // namespace harmonics::inline in_dispatch
