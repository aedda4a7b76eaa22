// The proof behind all proofs: two committed vectors have the inner product that a third one has
// with a public vector, and none of them is shown (private to custody).
//
// Public: commitments to a, b and z, and q. Claim: <a,b> = <z,q>, where the products in <a,b> may
// have public weights. With a link there is a fourth commitment, to y, and public e and w. Claim:
// <a,e> = <y,w>.
//
// The prover announces commitments to masks d, f1, f2 (and g) and to the coefficients of
// <a + x d, b + x f1> in x; the verifier's challenge is x; the answer is a + x d, b + x f1,
// z + x f2 (and y + x g) with their blindings. docs/guides/custody.md has the argument for why this
// convinces and why it shows nothing.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "msm.h"
#include "scalar.h"

namespace harmonics::zk {

/// A commitment that the verifier puts together from others: the sum of factors times points, and
/// of public values in the generators of rows.
struct Derived {
  Scalars factors;
  std::vector<AffinePoint> points;
  Scalars columns;
};

struct Statement {
  Derived a, b, z, y;
  Scalars q;
  /// Of the products in <a,b>; empty: all 1.
  Scalars weights;
  /// Both empty: no link.
  Scalars e, w;
  [[nodiscard]] bool linked() const { return !w.empty(); }
};

/// A committed vector and its blinding.
struct Secret {
  Scalars values;
  Scalar blinding;
};
struct Witness {
  Secret a, b, z, y;
};

inline constexpr std::size_t kAnnouncedPoints = 7;
inline constexpr std::size_t kLinkedPoints = 2;

/// What the prover says before it knows the challenge: D, E, F, T0, T1, T2, Tf and, with a link,
/// G and Td.
struct Announcement {
  std::vector<PointBytes> points;
};

/// What it answers.
struct CoreAnswer {
  Scalars a, b, z, y;
  /// Of the three (four) openings, then of the product, of the output, and of the link.
  Scalar blind_a, blind_b, blind_z, blind_product, blind_output, blind_y, blind_link;
};

/// One proof in the making. The masks are new for every object and must answer one challenge only.
class Prover {
 public:
  /// Announces for a statement of which only q, the weights, e and w are looked at.
  Prover(const Statement& statement, const Witness& witness);
  [[nodiscard]] const Announcement& announcement() const { return announcement_; }
  [[nodiscard]] CoreAnswer answer(const Scalar& challenge) const;

 private:
  const Witness& witness_;
  Witness mask_;
  Scalar blind_t0_, blind_t1_, blind_t2_, blind_tf_, blind_td_;
  Announcement announcement_;
};

/// The equations of many proofs as one sum, each times a factor that nobody could foresee: it is
/// zero if and, but for a chance of one in 2^252, only if every one of them holds.
class Equations {
 public:
  /// False for points that do not decode and lengths that do not fit: then nothing holds.
  [[nodiscard]] bool add(const Statement& statement, const Announcement& announcement,
                         const Scalar& challenge, const CoreAnswer& answer);
  [[nodiscard]] bool hold() const;

 private:
  void add_row(const Scalar& factor, const Scalars& values);
  void add_point(const Scalar& factor, const AffinePoint& point);
  void add_derived(const Scalar& factor, const Derived& derived);

  Scalars row_;
  Scalars factors_;
  std::vector<AffinePoint> points_;
  Scalar product_, blinding_;
};

/// Whether all equations hold, checked as one sum with factors that nobody could foresee. False for
/// points that do not decode and lengths that do not fit.
[[nodiscard]] bool holds(const Statement& statement, const Announcement& announcement,
                         const Scalar& challenge, const CoreAnswer& answer);

}  // namespace harmonics::zk
