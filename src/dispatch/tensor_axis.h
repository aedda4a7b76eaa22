// Cutting and joining tensors along any axis.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <harmonics/dispatch/generator.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_dispatch {

/// The axis that a number means, which counts from the end where negative; nothing when a tensor of
/// that rank has none.
[[nodiscard]] std::optional<std::size_t> axis_of(const Shape& shape, int axis);

/// The length along an axis; 1 when there is no such axis.
[[nodiscard]] std::size_t length_along(const Shape& shape, int axis);

/// A part of `tensor` along an axis: shares memory along the first, else a copy (CPU only).
[[nodiscard]] Tensor slice_along(const Tensor& tensor, std::size_t axis, RowRange range);

/// Writes `part` into `whole` from row `begin` along an axis; a part of length 1 fills `rows` rows.
/// Both lie on the CPU and agree in dtype and all other axes (an Error otherwise). Threads may
/// write different rows at once.
void write_along(Tensor& whole, const Tensor& part, std::size_t axis, RowRange rows);

}  // namespace harmonics::inline in_dispatch
