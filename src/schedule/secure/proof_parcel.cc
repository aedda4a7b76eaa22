#include "proof_parcel.h"

#include <algorithm>

#include <harmonics/base/check.h>
#include <harmonics/transport/message.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::uint8_t kParcelVersion = 1;

Bytes take_bytes(ByteReader& in, std::uint32_t size) {
  const ByteSpan taken = in.take(size);
  return {taken.begin(), taken.end()};
}

// Its numbers must fill what is left.
Shape take_shape(ByteReader& in) {
  Shape shape(in.count(kMaxMessageAxes, sizeof(std::int64_t)));
  std::int64_t most = static_cast<std::int64_t>(in.left() / sizeof(std::int32_t));
  for (std::int64_t& extent : shape) {
    extent = in.number<std::int64_t>();
    if (extent < 1 || extent > most) in.broken("an extent that its numbers do not fill");
    most /= extent;
  }
  return shape;
}

}  // namespace

Bytes encode(const ProofParcel& parcel) {
  HARMONICS_CHECK(parcel.tensor.dtype() == DType::kInt32, "integers are proven");
  ByteWriter out;
  out.number(kParcelVersion);
  out.number(static_cast<std::uint32_t>(parcel.tensor.shape().size()));
  for (const std::int64_t extent : parcel.tensor.shape()) out.number(extent);
  const StageProof& proof = parcel.proof;
  for (const Bytes* part : {&proof.commitment, &proof.proof, &proof.opening}) {
    out.number(static_cast<std::uint32_t>(part->size()));
  }
  for (const Bytes* part : {&proof.commitment, &proof.proof, &proof.opening}) out.raw(*part);
  out.raw(parcel.tensor.bytes());
  return out.take();
}

ProofParcel decode_proof_parcel(ByteSpan bytes) {
  ByteReader in(bytes, "proof parcel");
  if (in.number<std::uint8_t>() != kParcelVersion) in.broken("another version than 1");
  const Shape shape = take_shape(in);
  const auto commitment = in.number<std::uint32_t>();
  const auto proof = in.number<std::uint32_t>();
  const auto opening = in.number<std::uint32_t>();
  if (commitment > kMaxCommitmentBytes || proof > kMaxTravellingProofBytes ||
      opening > kMaxProofOpeningBytes) {
    in.broken("a commitment, proof or opening that is too long");
  }
  ProofParcel parcel;
  parcel.proof.commitment = take_bytes(in, commitment);
  parcel.proof.proof = take_bytes(in, proof);
  parcel.proof.opening = take_bytes(in, opening);
  const auto numbers = static_cast<std::size_t>(element_count(shape));
  if (in.left() != numbers * sizeof(std::int32_t)) in.broken("another number of numbers");
  parcel.tensor = Tensor::empty(shape, DType::kInt32);
  std::ranges::copy(in.take(in.left()), parcel.tensor.mutable_bytes().begin());
  return parcel;
}

}  // namespace harmonics::inline in_schedule
