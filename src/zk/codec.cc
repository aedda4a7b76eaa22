#include "codec.h"

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>

#include <harmonics/custody/canonical.h>
#include "shape.h"
#include "wire.h"

namespace harmonics::zk {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kShapeBytes = 22;

// Numbers of points and scalars of a proof, which follow from its shape.
struct Counts {
  std::size_t points = 0;
  std::size_t scalars = 0;
  [[nodiscard]] std::size_t bytes() const { return kShapeBytes + 32 * (points + scalars); }
};

Counts counts_of(const LinearShape& shape) {
  const bool linked = shape.kind == LinearShape::Kind::kConv3x3;
  return {shape.input_rows() + shape.output_rows() + kAnnouncedPoints +
              (linked ? 1 + kLinkedPoints : 0),
          2 * shape.weight_columns() + shape.output_columns() + 5 +
              (linked ? shape.input_columns() + 2 : 0)};
}

LinearShape read_shape(CanonicalReader& in) {
  (void)in.choice(kVersion, kVersion, "a known version");
  LinearShape shape;
  shape.kind = static_cast<LinearShape::Kind>(in.choice(1, 2, "a kind of map"));
  shape.batch = in.number<std::uint32_t>();
  shape.inputs = in.number<std::uint32_t>();
  shape.outputs = in.number<std::uint32_t>();
  shape.height = in.number<std::uint32_t>();
  shape.width = in.number<std::uint32_t>();
  if (const std::string problem = shape_problem(shape); !problem.empty()) in.broken(problem);
  return shape;
}

}  // namespace

Bytes encode_proof(const StageProof& proof) {
  ByteWriter out;
  const LinearShape& shape = proof.shape;
  out.number(kVersion);
  out.number(static_cast<std::uint8_t>(shape.kind));
  for (const std::uint32_t extent :
       {shape.batch, shape.inputs, shape.outputs, shape.height, shape.width}) {
    out.number(extent);
  }
  write(out, proof.inputs);
  write(out, proof.outputs);
  if (proof.linked()) out.raw(proof.sums);
  write(out, proof.announcement.points);
  const CoreAnswer& answer = proof.answer;
  for (const Scalars* values : {&answer.a, &answer.b, &answer.z, &answer.y}) write(out, *values);
  for (const Scalar* blinding : {&answer.blind_a, &answer.blind_b, &answer.blind_z,
                                 &answer.blind_product, &answer.blind_output}) {
    write(out, *blinding);
  }
  if (proof.linked()) {
    write(out, answer.blind_y);
    write(out, answer.blind_link);
  }
  if (out.bytes().size() > kMaxProofBytes) {
    fail(ErrorCode::kResourceExhausted, "a proof of {} bytes is above the limit of {}",
         out.bytes().size(), kMaxProofBytes);
  }
  return out.take();
}

StageProof decode_proof(ByteSpan bytes) {
  return decode_canonical(bytes, "proof", [&](CanonicalReader& in) {
    StageProof proof;
    proof.shape = read_shape(in);
    const std::size_t due = counts_of(proof.shape).bytes();
    if (due > kMaxProofBytes || bytes.size() != due) {
      in.broken(format("a proof of this shape has {} bytes (at most {}), not {}", due,
                       kMaxProofBytes, bytes.size()));
    }
    proof.inputs = read_points(in, proof.shape.input_rows());
    proof.outputs = read_points(in, proof.shape.output_rows());
    if (proof.linked()) proof.sums = in.digest();
    proof.announcement.points =
        read_points(in, kAnnouncedPoints + (proof.linked() ? kLinkedPoints : 0));
    CoreAnswer& answer = proof.answer;
    answer.a = read_scalars(in, proof.shape.weight_columns());
    answer.b = read_scalars(in, proof.shape.weight_columns());
    answer.z = read_scalars(in, proof.shape.output_columns());
    if (proof.linked()) answer.y = read_scalars(in, proof.shape.input_columns());
    for (Scalar* blinding : {&answer.blind_a, &answer.blind_b, &answer.blind_z,
                             &answer.blind_product, &answer.blind_output}) {
      *blinding = read_scalar(in);
    }
    if (proof.linked()) {
      answer.blind_y = read_scalar(in);
      answer.blind_link = read_scalar(in);
    }
    return proof;
  });
}

Bytes encode_weights(const WeightCommitments& weights) {
  ByteWriter out;
  out.number(kVersion);
  out.number(static_cast<std::uint8_t>(weights.kind));
  out.number(weights.inputs);
  out.number(weights.outputs);
  write(out, weights.columns);
  return out.take();
}

WeightCommitments decode_weights(ByteSpan bytes) {
  return decode_canonical(bytes, "weight commitments", [](CanonicalReader& in) {
    WeightCommitments weights;
    (void)in.choice(kVersion, kVersion, "a known version");
    weights.kind = static_cast<LinearShape::Kind>(in.choice(1, 2, "a kind of map"));
    weights.inputs = in.number<std::uint32_t>();
    weights.outputs = in.number<std::uint32_t>();
    if (weights.outputs > kMaxProofRows || in.left() != 32 * std::size_t{weights.outputs}) {
      in.broken("the number of commitments is not that of the outputs");
    }
    weights.columns = read_points(in, weights.outputs);
    return weights;
  });
}

std::vector<PointBytes> weight_points(ByteSpan bytes, const LinearShape& shape) {
  WeightCommitments weights = decode_weights(bytes);
  if (weights.kind != shape.kind || weights.inputs != shape.inputs ||
      weights.outputs != shape.outputs) {
    fail_custody(Breach::kWrongProof, "the committed weights are of another map than the proof");
  }
  return std::move(weights.columns);
}

}  // namespace harmonics::zk
