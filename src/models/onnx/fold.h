// Nodes whose inputs are all known are computed at import: shapes, masks, reshaped weights
// (private to models).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "constant.h"
#include "onnx_model.h"

namespace harmonics::inline in_models {

/// Stands for the size of a batch in shapes, which is not known at import: a prime far from
/// anything that a model has.
inline constexpr std::int64_t kBatchExtent = 1'000'003;

/// What a node gives for these inputs (null: left out), one per output; nothing for an operator
/// that is not computed at import. Inputs that make no sense are an Error that names the node.
[[nodiscard]] std::optional<std::vector<Constant>> fold(const OnnxNode& node,
                                                        std::span<const Constant* const> inputs);

/// True for an operator that `fold` computes.
[[nodiscard]] bool is_folded(std::string_view op);

/// Shapes that broadcast as NumPy's do, or an Error.
[[nodiscard]] Shape broadcast_shape(const Shape& left, const Shape& right);

/// Beginning, end and step of a slice, worked out within an axis of `extent`.
struct SliceRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
};
[[nodiscard]] SliceRange slice_range(std::int64_t begin, std::int64_t end, std::int64_t step,
                                     std::int64_t extent);

/// `axis` counted from the front, of `rank` axes; outside of them an Error.
[[nodiscard]] std::size_t front_axis(std::int64_t axis, std::size_t rank);

/// Reshape's target worked out for `from`: 0 copies an axis (unless `allow_zero`), -1 is what is
/// left.
[[nodiscard]] Shape reshape_target(const Shape& from, std::vector<std::int64_t> target,
                                   bool allow_zero);

}  // namespace harmonics::inline in_models
