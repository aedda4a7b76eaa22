// Zero-knowledge proofs of a whole network in integers: that outputs which everybody sees are what
// committed weights make of an input, with nothing shown in between (docs/guides/custody.md).
//
// A layer multiplies (LinearShape); all but the last then scale back: a sum s becomes
//   clamp((s * factor + 2^30) >> 31, low, 127), low 0 with relu and -127 without,
// and where the layer pools, the largest of each 2x2 window goes on. The last layer's sums are the
// outputs. Without libsodium every function that proves or checks is an Error (kUnimplemented).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/digest.h>
#include <harmonics/zk/zk.h>

namespace harmonics::inline in_zk {

inline constexpr std::size_t kMaxNetworkLayers = 64;
/// Inputs of one layer that are constant.
inline constexpr std::size_t kMaxNetworkConstants = 64;
/// Committed rows of one proof, about 80 per sample and layer, and proofs checked at once.
inline constexpr std::size_t kMaxNetworkRows = std::size_t{1} << 16;
inline constexpr std::size_t kMaxNetworkProofs = 1024;
/// Factors are in units of 2^-31.
inline constexpr int kNetworkFactorBits = 31;

/// What is public about a layer.
struct NetworkLayer {
  /// For a batch of 1; the constants are among its inputs.
  LinearShape shape;
  /// What its last inputs are set to; of a convolution, whole planes.
  std::vector<std::int8_t> constants;
  bool relu = false;
  /// Whether the largest of each 2x2 window goes on; the height and width are even.
  bool pool = false;
  bool operator==(const NetworkLayer&) const = default;

  /// Numbers per sample that the layer before gives, and that this one gives.
  [[nodiscard]] std::size_t data_inputs() const;
  [[nodiscard]] std::size_t data_outputs() const;
};
using NetworkLayers = std::vector<NetworkLayer>;

/// What is secret about a layer: weights, and the factors (0 or more) per output, none for the last
/// layer. Owns nothing.
struct LayerParameters {
  std::span<const std::int8_t> weights;
  std::span<const std::int32_t> factors;
};

/// Why a network of these layers cannot be proven; empty when it can.
[[nodiscard]] std::string network_problem(const NetworkLayers& layers);

/// Commits to the network; public, made once per version. Weights and factors are hidden by the
/// seed: who has it and the parameters can make the same bytes again.
[[nodiscard]] Bytes commit_network(const NetworkLayers& layers,
                                   std::span<const LayerParameters> parameters,
                                   const BlindingSeed& seed);
/// The layers of a commitment. Bounded; other bytes are a CustodyError (kMalformed).
[[nodiscard]] NetworkLayers committed_layers(ByteSpan commitment);

/// A committed network with its secrets. Owns nothing.
struct NetworkSecrets {
  ByteSpan commitment;
  std::span<const LayerParameters> parameters;
  BlindingSeed seed{};
};

/// What goes in: samples after one another, without constants.
struct NetworkInput {
  std::span<const std::int8_t> values;
  /// Shown in the proof, or hidden by the seed: one that is used for nothing else.
  bool shown = false;
  BlindingSeed seed{};
};

/// Computes the network and proves it. `context` says what the proof is for, and it holds for
/// nothing else.
[[nodiscard]] Bytes prove_network(const NetworkSecrets& network, const NetworkInput& input,
                                  const Digest& context);

/// What a proof that holds says: the committed network makes these outputs of an input.
struct NetworkClaim {
  std::uint32_t batch = 0;
  std::vector<std::int32_t> outputs;
  /// Empty: hidden.
  std::vector<std::int8_t> input;
};

/// What a proof says, without checking that it holds.
[[nodiscard]] NetworkClaim read_network_claim(ByteSpan proof, ByteSpan commitment);

/// Checks a proof with what is public. A CustodyError: kMalformed for bytes that are no proof of
/// this network, kWrongProof for one that does not hold.
NetworkClaim verify_network_proof(ByteSpan proof, ByteSpan commitment, const Digest& context);

/// One of several proofs that are checked together.
struct ContextProof {
  ByteSpan proof;
  Digest context{};
};
/// Checks proofs of one network with one sum for all of them, which takes less time than one after
/// another. A CustodyError names the first that does not hold.
std::vector<NetworkClaim> verify_network_proofs(std::span<const ContextProof> proofs,
                                                ByteSpan commitment);

/// Whether a hidden input is this one: makes its commitments again from the plaintext and its seed.
/// A CustodyError (kWrongProof) names the first sample that differs. Does not check the proof.
void check_network_input(ByteSpan proof, ByteSpan commitment, std::span<const std::int8_t> input,
                         const BlindingSeed& seed);

/// Whether bytes begin as a network's proof or commitment does, and not as a stage's.
[[nodiscard]] bool is_network_record(ByteSpan bytes);

}  // namespace harmonics::inline in_zk
