// Zero-knowledge proofs of a stage: that an output is the product of an input and weights, all
// committed to and none shown (docs/guides/custody.md).
//
// The arithmetic is exact: int8 inputs and weights, int32 sums. Without libsodium
// (HARMONICS_WITH_ZK=OFF) every function here is an Error (kUnimplemented) that names the option.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/digest.h>
#include <harmonics/custody/records.h>

namespace harmonics::inline in_zk {

/// Rows that one proof commits to, and its largest size.
inline constexpr std::size_t kMaxProofRows = std::size_t{1} << 16;
inline constexpr std::size_t kMaxProofBytes = std::size_t{8} << 20;

/// A linear map. Dense: input [batch, inputs], weights [outputs, inputs], output [batch, outputs],
/// height and width 1. Conv3x3 (stride 1, padding 1): input [batch, inputs, height, width], weights
/// [outputs, inputs, 3, 3], output [batch, outputs, height, width].
struct LinearShape {
  enum class Kind : std::uint8_t { kDense = 1, kConv3x3 = 2 };
  Kind kind = Kind::kDense;
  std::uint32_t batch = 1;
  std::uint32_t inputs = 1;
  std::uint32_t outputs = 1;
  std::uint32_t height = 1;
  std::uint32_t width = 1;
  bool operator==(const LinearShape&) const = default;

  [[nodiscard]] std::size_t pixels() const { return std::size_t{height} * width; }
  // Commitments are to rows: of a dense map's input and output one per sample, of a convolution's
  // one per sample and channel; of the weights one per output.
  [[nodiscard]] std::size_t input_rows() const;
  [[nodiscard]] std::size_t input_columns() const;
  [[nodiscard]] std::size_t weight_columns() const;
  [[nodiscard]] std::size_t output_rows() const;
  [[nodiscard]] std::size_t output_columns() const;
};

/// Secret bytes from which the blindings of a tensor's rows follow. Who has the seed and the tensor
/// can make its commitments again; who has neither learns nothing from them. One seed per tensor.
using BlindingSeed = std::array<std::byte, 32>;
[[nodiscard]] BlindingSeed new_blinding_seed();

/// Exact sums; what the proof is about. Sizes that do not fit the shape are an Error.
[[nodiscard]] std::vector<std::int32_t> linear_product(const LinearShape& shape,
                                                       std::span<const std::int8_t> input,
                                                       std::span<const std::int8_t> weights);

/// Commitments to weights, made once per version; public.
[[nodiscard]] Bytes commit_weights(const LinearShape& shape, std::span<const std::int8_t> weights,
                                   const BlindingSeed& seed);

/// What a prover knows. Owns nothing.
struct StageSecrets {
  std::span<const std::int8_t> input;
  std::span<const std::int8_t> weights;
  std::span<const std::int32_t> output;
  BlindingSeed input_seed{};
  BlindingSeed weight_seed{};
  BlindingSeed output_seed{};
};

/// Commits to input and output and proves output = input * weights. `weights` are the bytes of
/// commit_weights; `context` says what the proof is for, and it holds for nothing else. Does not
/// check the product first: a wrong one gives a proof that does not verify.
[[nodiscard]] Bytes prove_stage(const LinearShape& shape, const StageSecrets& secrets,
                                ByteSpan weights, const Digest& context);

/// Checks a proof with what is public. A CustodyError: kMalformed for bytes that are no proof,
/// kWrongProof for one that does not hold. Gives the shape of what was proven.
LinearShape verify_stage_proof(ByteSpan proof, ByteSpan weights, const Digest& context);

/// Checks the proof of a link in a chain: that it is for this link, and about a tensor of its
/// shape; of a network's proof (network.h) that its outputs are the tensor of the link, and that it
/// shows as its input, in numbers of int32, a tensor that the link was made from, unless that was
/// data alone, which it may hide. Goes into VerifyOptions::proof.
void check_link_proof(const Link& link, ByteSpan proof, ByteSpan weights);

/// Makes the commitments of these rows of the output again, from the plaintext and its seed, and
/// compares them with the proof's: the neighbour's spot check that the tensor it holds is the one
/// that was proven. A CustodyError (kWrongProof) names the first row that differs.
void check_output_rows(ByteSpan proof, std::span<const std::int32_t> output,
                       const BlindingSeed& seed, std::span<const std::uint32_t> rows);
/// The same for the input, which the neighbour before computes from what it sent.
void check_input_rows(ByteSpan proof, std::span<const std::int8_t> input, const BlindingSeed& seed,
                      std::span<const std::uint32_t> rows);

}  // namespace harmonics::inline in_zk
