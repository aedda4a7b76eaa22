// Proofs and weight commitments as bytes (private to custody; docs/formats/custody.md).
#pragma once

#include <vector>

#include <harmonics/zk/zk.h>

#include "core.h"

namespace harmonics::zk {

struct StageProof {
  LinearShape shape;
  std::vector<PointBytes> inputs;
  std::vector<PointBytes> outputs;
  /// A convolution's commitment to the shifted sums.
  PointBytes sums{};
  Announcement announcement;
  CoreAnswer answer;

  [[nodiscard]] bool linked() const { return shape.kind == LinearShape::Kind::kConv3x3; }
};

struct WeightCommitments {
  LinearShape::Kind kind = LinearShape::Kind::kDense;
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  std::vector<PointBytes> columns;
};

[[nodiscard]] Bytes encode_proof(const StageProof& proof);
/// The size follows from the shape and is checked before anything is read. Scalars must be
/// canonical. Anything else is a CustodyError (kMalformed).
[[nodiscard]] StageProof decode_proof(ByteSpan bytes);

[[nodiscard]] Bytes encode_weights(const WeightCommitments& weights);
[[nodiscard]] WeightCommitments decode_weights(ByteSpan bytes);
/// The commitments, if they are of a map of this shape; else a CustodyError (kWrongProof).
[[nodiscard]] std::vector<PointBytes> weight_points(ByteSpan bytes, const LinearShape& shape);

}  // namespace harmonics::zk
