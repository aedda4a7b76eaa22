// The layers of a network as statements of core.h (private to zk).
//
// Layer: challenges s per sample, r per output and, of a convolution, v per pixel. With X the data
// and constants that go in, G = factor * weights and T what comes out, T = X G gives for a = s X, b
// = G r, z = s T that <a,b> = <z,r>, as for a stage (stage.h); of a convolution likewise, where the
// link takes one commitment to a sample's whole input. Windows have a challenge per place, and v is
// the product of that and of one per window. Commitments to s X and s T follow from those to the
// bits.
#pragma once

#include <vector>

#include "hadamard.h"
#include "network_codec.h"
#include "network_layout.h"
#include "stage.h"
#include "transcript.h"

namespace harmonics::zk {

struct LayerChallenges {
  /// The shape's batch is that of the proof.
  LinearShape shape;
  StageChallenges stage;
  /// Where the layer pools: per window and per place in it; else pixels, and 1.
  Scalars window, place;
};

/// All challenges but those of the rounds and the last one.
struct NetworkChallenges {
  std::vector<LayerChallenges> layers;
  HadamardChallenges constraints;
};

/// A transcript that has seen everything public and the commitments to rows.
[[nodiscard]] Transcript network_transcript(ByteSpan commitment, const NetworkProof& proof,
                                            const Digest& context);
[[nodiscard]] NetworkChallenges network_challenges(const NetworkLayout& layout,
                                                   Transcript& transcript);
/// Lets the transcript see a convolution's sums and draws the challenges of its link.
void draw_link(const PointBytes& sums, Transcript& transcript, LayerChallenges& c);
/// Lets the transcript see what all parts announce and draws the challenge that they answer.
[[nodiscard]] Scalar draw_answer(const std::vector<CorePart>& parts, Transcript& transcript);

/// s X, with constants, and s T. `shown` is a shown input, `outputs` those of the last layer.
[[nodiscard]] Combination data_combination(const NetworkLayout& layout, std::size_t layer,
                                           const LayerChallenges& c,
                                           std::span<const std::int8_t> shown);
[[nodiscard]] Combination result_combination(const NetworkLayout& layout, std::size_t layer,
                                             const LayerChallenges& c,
                                             std::span<const std::int32_t> outputs);
/// q, and of a convolution e and w.
[[nodiscard]] Statement layer_vectors(const LayerChallenges& c);
/// q and the weights.
[[nodiscard]] Statement constraint_vectors(const HadamardChallenges& c);

}  // namespace harmonics::zk
