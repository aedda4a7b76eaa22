// Sums of products from rows that are still packed (private to runtime_tokens).
#pragma once

#include <cstddef>

#include <harmonics/models/weight_source.h>

#include "row_kernels.h"

namespace harmonics::inline in_runtime {

/// Rows of a matrix as its file has them, each `row_bytes` long and anywhere.
struct PackedRowsView {
  Packing packing = Packing::kPlain;
  DType dtype = DType::kFloat32;  // of plain ones
  const std::byte* const* rows = nullptr;
  std::size_t count = 0;
  std::size_t row_bytes = 0;
};

/// From so many rows of x on it is less work to unpack `w` once.
inline constexpr std::size_t kMostPackedRows = 4;

/// As products() with the unpacked rows of `w`, bit for bit, without writing them anywhere; x has
/// one to kMostPackedRows rows. False, and nothing is written, where this machine, the packing or
/// the length (not a multiple of 32) has no way to.
[[nodiscard]] bool packed_products(const RowsView& x, const PackedRowsView& w, std::size_t length,
                                   float* y, std::size_t y_stride);

}  // namespace harmonics::inline in_runtime
