#include <algorithm>
#include <optional>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>

#include "msm.h"
#include "network_codec.h"
#include "network_prover.h"
#include "network_statement.h"

namespace harmonics::zk {
namespace {

using Points = std::vector<AffinePoint>;

Points decoded(const std::vector<PointBytes>& bytes) {
  Points out;
  for (const PointBytes& one : bytes) {
    const std::optional<Point> point = decode_point(one);
    if (!point) fail_custody(Breach::kMalformed, "a commitment in a proof is no point");
    out.push_back(affine(*point));
  }
  return out;
}

// A commitment to a network, decoded once for all proofs of it.
struct PublicNetwork {
  explicit PublicNetwork(ByteSpan commitment) : bytes(commitment) {
    NetworkCommitment decoded_commitment = decode_network(commitment);
    layers = std::move(decoded_commitment.layers);
    for (const auto& of_layer : decoded_commitment.outputs) outputs.push_back(decoded(of_layer));
  }
  ByteSpan bytes;
  NetworkLayers layers;
  std::vector<Points> outputs;
};

[[noreturn]] void fail_proof() {
  fail_custody(Breach::kWrongProof,
               "the proof does not hold: the outputs are not those of the committed network, or "
               "the proof is of something else");
}

// One proof as equations.
class NetworkVerifier {
 public:
  NetworkVerifier(const PublicNetwork& network, ByteSpan proof)
      : network_(network),
        proof_(decode_network_proof(proof, network.layers)),
        layout_(network_layout(network.layers, proof_.batch, proof_.shown)),
        rows_(decoded(proof_.rows)) {}

  /// False when nothing can hold.
  [[nodiscard]] bool add_to(Equations& equations, const Digest& context) {
    Transcript transcript = network_transcript(network_.bytes, proof_, context);
    challenges_ = network_challenges(layout_, transcript);
    for (std::size_t i = 0; i < layout_.layers.size(); ++i) {
      draw_link(proof_.sums[i], transcript, challenges_.layers[i]);
    }
    for (std::size_t round = 0; round < layout_.rounds(); ++round) {
      draw_round(std::span(proof_.rounds).subspan(2 * round, 2), transcript,
                 challenges_.constraints);
    }
    const Scalar challenge = draw_answer(proof_.parts, transcript);
    for (std::size_t i = 0; i < proof_.parts.size(); ++i) {
      const CorePart& part = proof_.parts[i];
      const Statement statement =
          i < layout_.layers.size() ? layer_statement(i) : constraint_statement();
      if (!equations.add(statement, part.announcement, challenge, part.answer)) return false;
    }
    return true;
  }

  [[nodiscard]] NetworkClaim claim() && {
    return {proof_.batch, std::move(proof_.outputs), std::move(proof_.input)};
  }

 private:
  [[nodiscard]] Statement layer_statement(std::size_t i) const {
    const LayerChallenges& c = challenges_.layers[i];
    Statement statement = layer_vectors(c);
    statement.a = data_combination(layout_, i, c, proof_.input).derived(rows_);
    if (statement.linked()) {
      statement.y = std::exchange(
          statement.a, Derived{{scalar_of(std::int64_t{1})}, decoded({proof_.sums[i]}), {}});
    }
    statement.b = {c.stage.output, network_.outputs[i], {}};
    statement.z = result_combination(layout_, i, c, proof_.outputs).derived(rows_);
    return statement;
  }

  [[nodiscard]] Statement constraint_statement() const {
    const HadamardChallenges& c = challenges_.constraints;
    const HadamardEnds ends = hadamard_ends(layout_, c);
    Statement statement = constraint_vectors(c);
    statement.a = ends.left.derived(rows_);
    statement.b = ends.right.derived(rows_);
    statement.z = {claim_factors(c), decoded(proof_.rounds), {}};
    return statement;
  }

  const PublicNetwork& network_;
  NetworkProof proof_;
  const NetworkLayout layout_;
  const Points rows_;
  NetworkChallenges challenges_;
};

bool holds_alone(const PublicNetwork& network, const ContextProof& proof) {
  Equations equations;
  return NetworkVerifier(network, proof.proof).add_to(equations, proof.context) && equations.hold();
}

// Says which of several proofs is wrong.
[[noreturn]] void fail_one_of(const PublicNetwork& network, std::span<const ContextProof> proofs) {
  for (std::size_t i = 0; i < proofs.size() && proofs.size() > 1; ++i) {
    if (holds_alone(network, proofs[i])) continue;
    fail_custody(Breach::kWrongProof, "proof {} of {} does not hold", i + 1, proofs.size());
  }
  fail_proof();
}

}  // namespace
}  // namespace harmonics::zk

namespace harmonics::inline in_zk {

NetworkClaim verify_network_proof(ByteSpan proof, ByteSpan commitment, const Digest& context) {
  const ContextProof one{proof, context};
  return std::move(verify_network_proofs(std::span(&one, 1), commitment).front());
}

std::vector<NetworkClaim> verify_network_proofs(std::span<const ContextProof> proofs,
                                                ByteSpan commitment) {
  if (proofs.size() > kMaxNetworkProofs) {
    fail(ErrorCode::kResourceExhausted, "{} proofs at once, at most {} are possible", proofs.size(),
         kMaxNetworkProofs);
  }
  const zk::PublicNetwork network(commitment);
  zk::Equations equations;
  std::vector<NetworkClaim> claims;
  for (const ContextProof& proof : proofs) {
    zk::NetworkVerifier verifier(network, proof.proof);
    if (!verifier.add_to(equations, proof.context)) zk::fail_one_of(network, proofs);
    claims.push_back(std::move(verifier).claim());
  }
  if (!equations.hold()) zk::fail_one_of(network, proofs);
  return claims;
}

void check_network_input(ByteSpan bytes, ByteSpan commitment, std::span<const std::int8_t> input,
                         const BlindingSeed& seed) {
  const NetworkLayers layers = committed_layers(commitment);
  const zk::NetworkProof proof = zk::decode_network_proof(bytes, layers);
  const zk::NetworkLayout layout = zk::network_layout(layers, proof.batch, proof.shown);
  const std::size_t width = layers.front().data_inputs();
  if (input.size() != proof.batch * width || proof.shown) {
    fail_custody(Breach::kWrongProof, "the proof is not of a hidden input of {} numbers",
                 input.size());
  }
  zk::NetworkWitness witness;
  for (const zk::BitRows& bits : layout.inputs) {
    for (std::size_t i = 0; i < bits.worth.size(); ++i) witness.rows.emplace_back(width, 0);
  }
  const zk::Scalars blindings = zk::expanded(seed, witness.rows.size());
  for (std::size_t n = 0; n < proof.batch; ++n) {
    const zk::BitRows& bits = layout.inputs[n];
    const auto sample = input.subspan(n * width, width);
    zk::write_bits(bits, std::vector<std::int64_t>(sample.begin(), sample.end()), witness);
    for (std::size_t row = bits.first; row < bits.first + bits.worth.size(); ++row) {
      if (zk::commit_bits(witness.rows[row], blindings[row]) == proof.rows[row]) continue;
      fail_custody(Breach::kWrongProof, "sample {} is not the one that was proven", n + 1);
    }
  }
}

}  // namespace harmonics::inline in_zk
