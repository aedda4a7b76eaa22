// Sums of many points times scalars, and the generators of commitments (private to custody).
//
// The sums sort points into buckets by the digits of their scalars, so which memory they touch
// depends on the scalars: whoever can watch this machine's caches while it computes may learn
// about them. docs/guides/custody.md states this limit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "point.h"
#include "scalar.h"

namespace harmonics::zk {

/// The longest committed row.
inline constexpr std::size_t kMaxZkColumns = std::size_t{1} << 16;

/// Sum of scalars[i] * points[i]; as many scalars as points.
[[nodiscard]] Point multi_multiply(std::span<const Scalar> scalars,
                                   std::span<const AffinePoint> points);
/// The same for small numbers, of which |value| <= 2^bits.
[[nodiscard]] Point multi_multiply(std::span<const std::int8_t> values,
                                   std::span<const AffinePoint> points);
[[nodiscard]] Point multi_multiply(std::span<const std::int32_t> values,
                                   std::span<const AffinePoint> points, int bits);

/// One scalar times a point, in constant time.
[[nodiscard]] Point multiply(const Scalar& scalar, const PointBytes& point);

/// Points of which nobody knows how they relate: hashes of their own position.
struct Generators {
  /// For the elements of rows.
  std::vector<AffinePoint> row;
  /// For blindings and for inner products.
  AffinePoint blinding, product;
  PointBytes blinding_bytes{}, product_bytes{};
};
/// At least `columns` generators, at most kMaxZkColumns; made once and kept. Any thread.
[[nodiscard]] const Generators& generators(std::size_t columns);

/// Commits to values: sum of values[i] * row[i], plus blinding * H.
[[nodiscard]] Point commit(const Scalars& values, const Scalar& blinding);

}  // namespace harmonics::zk
