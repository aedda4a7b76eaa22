// Points of ristretto255 (RFC 9496), a group of prime order without the curve's small subgroups
// (private to custody).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "field.h"

namespace harmonics::zk {

using PointBytes = std::array<std::byte, 32>;

/// A point in extended coordinates: x = X/Z, y = Y/Z, xy = T/Z.
struct Point {
  Field x, y, z, t;
};

/// A point with Z = 1, prepared for being added: y+x, y-x, 2dxy.
struct AffinePoint {
  Field sum, difference, product;
};

[[nodiscard]] Point identity();
[[nodiscard]] Point add(const Point& a, const Point& b);
[[nodiscard]] Point twice(const Point& a);
[[nodiscard]] Point negative(const Point& a);

/// Multiplications alone: constant time.
inline Point add(const Point& a, const AffinePoint& b) {
  const Field f1 = (a.y - a.x) * b.difference;
  const Field f2 = (a.y + a.x) * b.sum;
  const Field f3 = a.t * b.product;
  const Field f4 = a.z + a.z;
  const Field e = f2 - f1;
  const Field f = f4 - f3;
  const Field g = f4 + f3;
  const Field h = f2 + f1;
  return {e * f, g * h, f * g, e * h};
}
inline Point subtract(const Point& a, const AffinePoint& b) {
  const Field f1 = (a.y - a.x) * b.sum;
  const Field f2 = (a.y + a.x) * b.difference;
  const Field f3 = a.t * b.product;
  const Field f4 = a.z + a.z;
  const Field e = f2 - f1;
  const Field f = f4 + f3;
  const Field g = f4 - f3;
  const Field h = f2 + f1;
  return {e * f, g * h, f * g, e * h};
}

/// Prepares many points with one inversion.
[[nodiscard]] std::vector<AffinePoint> affine(std::span<const Point> points);
[[nodiscard]] AffinePoint affine(const Point& point);

/// Nothing when the bytes are not the one encoding of a point. The point has Z = 1.
[[nodiscard]] std::optional<Point> decode_point(const PointBytes& bytes);
[[nodiscard]] PointBytes encode_point(const Point& point);
/// Whether two points are the same element of the group.
[[nodiscard]] bool is_same(const Point& a, const Point& b);

}  // namespace harmonics::zk
