// Points and scalars as bytes (private to zk).
#pragma once

#include <cstring>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/canonical.h>

#include "point.h"
#include "scalar.h"

namespace harmonics::zk {

inline void write(ByteWriter& out, const std::vector<PointBytes>& points) {
  for (const PointBytes& point : points) out.raw(point);
}
inline void write(ByteWriter& out, const Scalar& scalar) {
  out.raw(std::as_bytes(std::span(scalar.bytes)));
}
inline void write(ByteWriter& out, const Scalars& scalars) {
  for (const Scalar& scalar : scalars) write(out, scalar);
}

/// The caller has bounded `count`.
inline std::vector<PointBytes> read_points(CanonicalReader& in, std::size_t count) {
  std::vector<PointBytes> points(count);
  for (PointBytes& point : points) point = in.digest();
  return points;
}

/// One that is not below the order is an error.
inline Scalar read_scalar(CanonicalReader& in) {
  Scalar scalar;
  std::memcpy(scalar.bytes.data(), in.raw(32).data(), 32);
  if (!is_canonical(scalar)) in.broken("a scalar is not below the order");
  return scalar;
}

inline Scalars read_scalars(CanonicalReader& in, std::size_t count) {
  Scalars scalars(count);
  for (Scalar& scalar : scalars) scalar = read_scalar(in);
  return scalars;
}

}  // namespace harmonics::zk
