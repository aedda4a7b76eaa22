// Products of matrices: each element one chain of fused multiply-adds in the order of p (private to
// runtime). Tiles, blocks and packing say only in which order elements are worked on; a chain that
// is interrupted waits in c.
#pragma once

#include "exact_kernels.h"
#include "exact_vector.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::int64_t kTileVectors = HARMONICS_EXACT_WIDTH == 1 ? 4 : 2;
constexpr std::int64_t kTileColumns = kTileVectors * kExactWidth;
constexpr std::int64_t kTileRows = HARMONICS_EXACT_WIDTH == 16  ? 12
                                   : HARMONICS_EXACT_WIDTH == 1 ? 2
                                                                : 6;
constexpr std::int64_t kBlockDepth = 256;
constexpr std::int64_t kBlockColumns = 512 / kTileColumns * kTileColumns;
constexpr std::int64_t kBlockRows = 60;  // a multiple of every kTileRows
static_assert(kBlockRows % kTileRows == 0 && kBlockColumns > 0);
static_assert(kBlockDepth * (kBlockColumns + kBlockRows) + kTileRows * kTileColumns <=
              kExactProductScratch);

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// One tile: a packed kTileRows numbers per p, b packed kTileColumns.
inline void multiply_tile(std::int64_t depth, const float* a, const float* b, float* c,
                          std::int64_t c_row) {
  VecF sums[kTileRows][kTileVectors];
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < kTileVectors; ++v) {
      sums[i][v] = load(c + i * c_row + v * kExactWidth);
    }
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    VecF row[kTileVectors];
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < kTileVectors; ++v) row[v] = load(b + v * kExactWidth);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kTileRows; ++i) {
      const VecF one = all_of_one(a[i]);
#pragma GCC unroll 4
      for (std::int64_t v = 0; v < kTileVectors; ++v) sums[i][v] = fused(one, row[v], sums[i][v]);
    }
    a += kTileRows;
    b += kTileColumns;
  }
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < kTileVectors; ++v) {
      store(c + i * c_row + v * kExactWidth, sums[i][v]);
    }
  }
}

/// A tile at the rim of c, by way of `spare`.
inline void multiply_rim(const ExactProduct& tile, const float* a, const float* b, float* spare) {
  for (std::int64_t i = 0; i < kTileRows; ++i) {
    for (std::int64_t j = 0; j < kTileColumns; ++j) {
      const bool inside = i < tile.m && j < tile.n;
      spare[i * kTileColumns + j] = inside ? tile.c[i * tile.c_row + j] : 0.0F;
    }
  }
  multiply_tile(tile.k, a, b, spare, kTileColumns);
  for (std::int64_t i = 0; i < tile.m; ++i) {
    for (std::int64_t j = 0; j < tile.n; ++j) {
      tile.c[i * tile.c_row + j] = spare[i * kTileColumns + j];
    }
  }
}

/// Numbers of a strided matrix: `across` of them per step along the chain, in groups of `group`
/// which are filled up with zeros.
struct PackedSide {
  const float* from;
  std::int64_t across_stride, depth_stride, across, depth, group;
};

/// A group whose numbers lie side by side, and one whose numbers lie in lines of their own.
inline void pack_rows(const PackedSide& side, const float* from, std::int64_t count, float* to) {
  for (std::int64_t p = 0; p < side.depth; ++p) {
    float* const row = to + p * side.group;
    for (std::int64_t i = 0; i < count; ++i) row[i] = from[p * side.depth_stride + i];
    for (std::int64_t i = count; i < side.group; ++i) row[i] = 0.0F;
  }
}
inline void pack_lines(const PackedSide& side, const float* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < side.group; ++i) {
    const float* const line = from + i * side.across_stride;
    const bool inside = i < count;
    for (std::int64_t p = 0; p < side.depth; ++p) {
      to[p * side.group + i] = inside ? line[p * side.depth_stride] : 0.0F;
    }
  }
}

inline void pack(const PackedSide& side, float* to) {
  for (std::int64_t first = 0; first < side.across; first += side.group) {
    const std::int64_t count = smaller(side.group, side.across - first);
    const float* const from = side.from + first * side.across_stride;
    (side.across_stride == 1 ? pack_rows : pack_lines)(side, from, count, to);
    to += side.depth * side.group;
  }
}

/// Packed rows times packed columns, tile by tile.
inline void multiply_block(const ExactProduct& block, const float* a, const float* b,
                           float* spare) {
  for (std::int64_t j = 0; j < block.n; j += kTileColumns) {
    for (std::int64_t i = 0; i < block.m; i += kTileRows) {
      ExactProduct tile = block;
      tile.m = smaller(kTileRows, block.m - i);
      tile.n = smaller(kTileColumns, block.n - j);
      tile.c = block.c + i * block.c_row + j;
      const float* const rows = a + i * block.k;
      const float* const columns = b + j * block.k;
      if (tile.m == kTileRows && tile.n == kTileColumns) {
        multiply_tile(block.k, rows, columns, tile.c, block.c_row);
      } else {
        multiply_rim(tile, rows, columns, spare);
      }
    }
  }
}

inline void multiply_columns(const ExactProduct& all, std::int64_t depth, float* scratch) {
  float* const columns = scratch;
  float* const rows = columns + kBlockDepth * kBlockColumns;
  float* const spare = rows + kBlockDepth * kBlockRows;
  const std::int64_t k = smaller(kBlockDepth, all.k - depth);
  const float* const a = all.a + depth * all.a_column;
  pack({all.b + depth * all.b_row, all.b_column, all.b_row, all.n, k, kTileColumns}, columns);
  for (std::int64_t i = 0; i < all.m; i += kBlockRows) {
    ExactProduct block = all;
    block.m = smaller(kBlockRows, all.m - i);
    block.k = k;
    block.c = all.c + i * all.c_row;
    pack({a + i * all.a_row, all.a_row, all.a_column, block.m, k, kTileRows}, rows);
    multiply_block(block, rows, columns, spare);
  }
}

inline void exact_multiply(const ExactProduct& product, float* scratch) {
  for (std::int64_t j = 0; j < product.n; j += kBlockColumns) {
    ExactProduct stripe = product;
    stripe.n = smaller(kBlockColumns, product.n - j);
    stripe.b = product.b + j * product.b_column;
    stripe.c = product.c + j;
    for (std::int64_t depth = 0; depth < product.k; depth += kBlockDepth) {
      multiply_columns(stripe, depth, scratch);
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_runtime
