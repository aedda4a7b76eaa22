// What travels in place of a tensor that is proven: the tensor and its proof (private to schedule).
#pragma once

#include <harmonics/base/bytes.h>
#include <harmonics/runtime/stage_prover.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_schedule {

/// A tensor of int32 with at most kMaxMessageAxes axes, and how it was made.
struct ProofParcel {
  Tensor tensor;
  StageProof proof;
};

/// Little-endian: u8 version 1; u32 axes, i64 each; u32 lengths of commitment, proof and opening,
/// which follow; the tensor's numbers to the end.
[[nodiscard]] Bytes encode(const ProofParcel& parcel);
/// Bytes that are no parcel are an Error (kDataLoss).
[[nodiscard]] ProofParcel decode_proof_parcel(ByteSpan bytes);

}  // namespace harmonics::inline in_schedule
