// Dense and convolutional stages as statements of zk_core.h (private to custody).
//
// Dense. Challenges s (one per sample) and r (one per output). With a = s X, b = W r and z = s Y,
// Y = X W gives <a,b> = <z,r>, and if Y differs anywhere that fails but for a chance of 2/2^252.
//
// Conv. Challenges u (per sample), v (per pixel), r (per output). a[c,k] is the sum over samples
// and pixels of u v X, shifted by tap k; b = W r; z is the sum of u r Y. <a,b> = <z,v>. The
// verifier cannot derive a commitment to a, so the prover sends one, and after challenges
// (per channel, per tap) proves by the link that it belongs to the committed X.
#pragma once

#include <span>
#include <vector>

#include <harmonics/zk/zk.h>

#include "core.h"
#include "transcript.h"

namespace harmonics::zk {

/// All that is public about a stage but the proof itself.
struct PublicStage {
  LinearShape shape;
  std::vector<PointBytes> inputs, weights, outputs;
};

/// A transcript that has seen everything public.
[[nodiscard]] Transcript stage_transcript(const PublicStage& stage, const Digest& context);

/// Challenges of a stage, drawn in this order.
struct StageChallenges {
  Scalars sample;   // s or u
  Scalars pixel;    // v; of a dense map {1}
  Scalars output;   // r
  Scalars channel;  // of the link; empty for a dense map
  Scalars tap;
};
[[nodiscard]] StageChallenges first_challenges(const LinearShape& shape, Transcript& transcript);
/// Draws the challenges of the link, after the transcript has seen the commitment to a.
void link_challenges(const LinearShape& shape, Transcript& transcript, StageChallenges& c);

/// The factor of each committed row: of the input in a (dense) or y (conv), and of the output in z.
[[nodiscard]] Scalars input_factors(const LinearShape& shape, const StageChallenges& c);
[[nodiscard]] Scalars output_factors(const LinearShape& shape, const StageChallenges& c);
/// q, and for a convolution e and w.
void set_public_vectors(const LinearShape& shape, const StageChallenges& c, Statement& statement);
/// Every product of a number of `a` and one of `b`, those of the first of `a` first.
[[nodiscard]] Scalars outer(const Scalars& a, const Scalars& b);
/// Sums of one channel's pixels, shifted by each tap and weighted by c.pixel.
void append_shifted(const LinearShape& shape, const StageChallenges& c,
                    std::span<const Scalar> channel, Scalars& out);
/// The vector a of a convolution.
[[nodiscard]] Scalars shifted_sums(const LinearShape& shape, const StageChallenges& c,
                                   std::span<const std::int8_t> input);

}  // namespace harmonics::zk
