// Named axes: extents of a sample that may differ from batch to batch, such as the length of a
// text.
//
// Layers know nothing of them. A graph holds plain shapes, worked out for one value of each axis;
// what follows an axis is known by working the shapes out at other values too (graph.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/tensor/dtype.h>

namespace harmonics::inline in_graph {

/// Ceilings of named axes; factors and offsets of extents are bounded by the last one too.
inline constexpr std::size_t kMaxGraphAxes = 16;
inline constexpr std::int64_t kMaxAxisCeiling = std::int64_t{1} << 31;

/// A named axis. `value` is what the graph's shapes are worked out for, 1 to `ceiling`.
struct AxisNode {
  std::string name;
  /// At least 2.
  std::int64_t ceiling = 0;
  std::int64_t value = 0;
  bool operator==(const AxisNode&) const = default;
};

/// One extent of a shape that follows an axis: factor * axis + offset, with a factor of at least 1.
struct NamedExtent {
  /// Which extent of the shape, from 0.
  std::uint32_t position = 0;
  std::string axis;
  std::int64_t factor = 1;
  std::int64_t offset = 0;
  [[nodiscard]] std::int64_t at(std::int64_t value) const { return factor * value + offset; }
  bool operator==(const NamedExtent&) const = default;
};

/// The named extents of a shape, by rising position; empty for a fixed shape.
using NamedExtents = std::vector<NamedExtent>;
using AxisValues = std::map<std::string, std::int64_t, std::less<>>;

/// One item of a shape that is being declared: a number, or factor * axis + offset.
struct Extent {
  // A number or a name is an extent as it stands: {"T", 384}.
  Extent(std::int64_t size) : offset(size), factor(0) {}                   // NOLINT
  Extent(int size) : Extent(std::int64_t{size}) {}                         // NOLINT
  Extent(const char* name) : axis(name) {}                                 // NOLINT
  Extent(std::string name, std::int64_t times = 1, std::int64_t plus = 0)  // NOLINT
      : axis(std::move(name)), offset(plus), factor(times) {}

  std::string axis;
  std::int64_t offset = 0;
  std::int64_t factor = 1;
};

/// As .harp spells it: T, T+1, 2*T-1.
[[nodiscard]] std::string extent_text(const NamedExtent& extent);
/// A shape with its named extents: {T, 384}.
[[nodiscard]] std::string named_shape_text(const Shape& shape, const NamedExtents& extents);
/// The shape with its named extents at these values; an axis that has none keeps its number.
[[nodiscard]] Shape shape_at(Shape shape, const NamedExtents& extents, const AxisValues& values);

/// The values that the tensors of one batch give to the axes of a graph.
class AxisBinding {
 public:
  /// `axes` must outlive the binding.
  explicit AxisBinding(const std::vector<AxisNode>& axes) : axes_(axes) {}

  /// Reads the axes off a tensor's shape (without the batch axis) that is declared as `declared`
  /// with `extents`. Another rank or number, a length that no value of the axis gives, one beyond
  /// the ceiling, or one that disagrees with an earlier tensor is an Error that begins with `owner`
  /// ("producer 'x'").
  void bind(std::string_view owner, const Shape& shape, const Shape& declared,
            const NamedExtents& extents);
  [[nodiscard]] const AxisValues& values() const { return values_; }

 private:
  const std::vector<AxisNode>& axes_;
  AxisValues values_;
  /// Who gave an axis its value.
  std::map<std::string, std::string, std::less<>> givers_;
};

}  // namespace harmonics::inline in_graph
