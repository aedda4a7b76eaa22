// That every constraint of a network holds: pairs of committed vectors whose products are zero in
// every column (private to zk).
//
// Challenges t (one per round) and d (one per column). Claim: the sum over constraints i and
// columns k of eq(t,i) d_k left_i[k] right_i[k] is zero, where eq(t,.) is 1 at one corner of
// {0,1}^rounds and 0 at the others for t in {0,1}^rounds, and linear in every t. A sumcheck over
// the bits of i, least first: in each round the sum without the factor of this bit's eq is a
// polynomial h of degree 2; the prover commits to h(0) and to its leading coefficient, the claim
// before gives h(1), a challenge r comes, and h(r) is the next claim. No number is shown: claims
// are commitments, and linear in what was committed to. At the end one pair of vectors is left,
// left(r) and right(r), commitments to which follow from those to the rows, and the last claim is
// <left(r), right(r)> with weights d.
#pragma once

#include <vector>

#include "network_layout.h"
#include "transcript.h"

namespace harmonics::zk {

struct HadamardChallenges {
  Scalars columns;  // d
  Scalars target;   // t
  Scalars round;    // r
};
/// Draws d and t.
[[nodiscard]] HadamardChallenges hadamard_challenges(const NetworkLayout& layout,
                                                     Transcript& transcript);
/// Lets the transcript see one round's commitments and draws its r.
void draw_round(std::span<const PointBytes> commitments, Transcript& transcript,
                HadamardChallenges& c);

/// What each committed number of the rounds (two per round) counts in the last claim.
[[nodiscard]] Scalars claim_factors(const HadamardChallenges& c);

/// The pair of vectors that is left.
struct HadamardEnds {
  Combination left, right;
};
[[nodiscard]] HadamardEnds hadamard_ends(const NetworkLayout& layout, const HadamardChallenges& c);

/// What the prover says in the rounds: commitments, two per round, and what is in them.
struct HadamardRounds {
  std::vector<PointBytes> points;
  Scalars values, blindings;
};
/// Goes through all rounds. Does not check the constraints: where one does not hold, what follows
/// does not verify.
[[nodiscard]] HadamardRounds hadamard_rounds(const NetworkLayout& layout,
                                             const std::vector<std::vector<std::int8_t>>& rows,
                                             Transcript& transcript, HadamardChallenges& c);

}  // namespace harmonics::zk
