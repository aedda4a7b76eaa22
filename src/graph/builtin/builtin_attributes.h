// What the shapes of layers that ship have in common (private to graph).
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <harmonics/base/format.h>
#include <harmonics/graph/layer_type.h>

namespace harmonics::inline in_graph {

/// As many inputs as a layer may have.
inline constexpr std::size_t kManyInputs = 1024;

inline AttributeSpec required(std::string name) { return {std::move(name), std::nullopt, true}; }
inline AttributeSpec optional(std::string name) { return {std::move(name), std::nullopt, false}; }
inline AttributeSpec with_default(std::string name, Attribute value) {
  return {std::move(name), std::move(value), false};
}

inline double elements(const Shape& shape) { return static_cast<double>(element_count(shape)); }

/// Bound of the start values of a weight that sums over `fan_in` inputs.
inline double kaiming_bound(std::int64_t fan_in) {
  return fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
}

// Refusals that many layers share.
inline void need_rank(const LayerQuery& q, std::size_t rank, std::string_view axes) {
  if (q.inputs[0].shape.size() != rank) q.refuse(format("needs an input of shape {}", axes));
}
inline void need_an_axis(const LayerQuery& q) {
  if (q.inputs[0].shape.empty()) q.refuse("needs an input with at least one axis");
}
inline void need_floating_first(const LayerQuery& q) {
  if (!is_floating(q.inputs[0].dtype)) q.refuse("needs a floating-point input");
}
inline void need_floating(const LayerQuery& q) {
  for (const TensorSpec& input : q.inputs) {
    if (!is_floating(input.dtype)) q.refuse("needs a floating-point input");
  }
}

/// The shape to which both broadcast, axes aligned from the last; none where an axis differs and
/// is not 1.
inline std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape all = a.size() < b.size() ? b : a;
  const Shape& fewer = a.size() < b.size() ? a : b;
  for (std::size_t i = 1; i <= fewer.size(); ++i) {
    std::int64_t& axis = all[all.size() - i];
    const std::int64_t other = fewer[fewer.size() - i];
    if (axis != other && axis != 1 && other != 1) return std::nullopt;
    axis = std::max(axis, other);
  }
  return all;
}

/// An axis of the first input, counted without the batch; below 0 from the last.
inline std::size_t sample_axis(const LayerQuery& q, std::string_view name, std::int64_t axis) {
  const auto axes = static_cast<std::int64_t>(q.inputs[0].shape.size());
  if (axis < -axes || axis >= axes) {
    q.refuse(
        format("{}={} is not an axis of the input (the batch axis does not count)", name, axis));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

/// A dtype by its name.
inline DType dtype_of(const LayerQuery& q, std::string_view name) {
  const std::optional<DType> dtype = dtype_from_name(q.text(name));
  if (!dtype) q.refuse(format("'{}' must be a dtype such as float32, not {}", name, q.text(name)));
  return *dtype;
}

/// A mask of rows as a second input {length}: whole numbers or bool, 1 = counts.
inline void check_row_mask(const LayerQuery& q) {
  if (q.inputs.size() < 2) return;
  if (is_floating(q.inputs[1].dtype) || q.inputs[1].shape != Shape{q.inputs[0].shape[0]}) {
    q.refuse(format("the mask must be whole numbers or bool of shape {}, 1 = counts",
                    shape_text({q.inputs[0].shape[0]})));
  }
}

/// The longest side that a window or its padding may have.
inline constexpr std::int64_t kLargestWindow = 1'000'000;

/// One value for both axes of an image, or a list of two.
inline Shape pair_of(const LayerQuery& q, std::string_view name, std::int64_t minimum) {
  Shape value = q.list(name);
  if (value.size() == 1) value.push_back(value[0]);
  if (value.size() != 2 || value[0] < minimum || value[1] < minimum || value[0] > kLargestWindow ||
      value[1] > kLargestWindow) {
    q.refuse(format("'{}' must be one or two numbers of at least {}", name, minimum));
  }
  return value;
}

}  // namespace harmonics::inline in_graph
