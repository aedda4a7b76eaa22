#include "core.h"

#include <utility>

namespace harmonics::zk {
namespace {

Secret random_secret(std::size_t size) { return {random_scalars(size), random_scalar()}; }

PointBytes encoded_commit(const Secret& secret) {
  return encode_point(commit(secret.values, secret.blinding));
}

// The sum of products, each times its weight.
Scalar weighted_dot(const Scalars& weights, const Scalars& a, const Scalars& b) {
  if (weights.empty()) return dot(a, b);
  Scalar sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum = sum + weights[i] * a[i] * b[i];
  return sum;
}

// value U + blinding H.
PointBytes commit_product(const Scalar& value, const Scalar& blinding) {
  const Generators& g = generators(1);
  return encode_point(add(multiply(value, g.product_bytes), multiply(blinding, g.blinding_bytes)));
}

}  // namespace

Prover::Prover(const Statement& statement, const Witness& witness)
    : witness_(witness),
      mask_{random_secret(witness.a.values.size()), random_secret(witness.b.values.size()),
            random_secret(witness.z.values.size()),
            statement.linked() ? random_secret(witness.y.values.size()) : Secret{}},
      blind_t0_(random_scalar()),
      blind_t1_(random_scalar()),
      blind_t2_(random_scalar()),
      blind_tf_(random_scalar()),
      blind_td_(random_scalar()) {
  const Scalars& a = witness.a.values;
  const Scalars& b = witness.b.values;
  const Scalars& d = mask_.a.values;
  const Scalars& e = mask_.b.values;
  const auto product = [&](const Scalars& left, const Scalars& right) {
    return weighted_dot(statement.weights, left, right);
  };
  announcement_.points = {
      encoded_commit(mask_.a),
      encoded_commit(mask_.b),
      encoded_commit(mask_.z),
      commit_product(product(a, b), blind_t0_),
      commit_product(product(a, e) + product(d, b), blind_t1_),
      commit_product(product(d, e), blind_t2_),
      commit_product(dot(mask_.z.values, statement.q), blind_tf_),
  };
  if (!statement.linked()) return;
  announcement_.points.push_back(encoded_commit(mask_.y));
  announcement_.points.push_back(
      commit_product(dot(d, statement.e) - dot(mask_.y.values, statement.w), blind_td_));
}

CoreAnswer Prover::answer(const Scalar& x) const {
  const auto opened = [&](const Secret& secret, const Secret& mask) {
    return masked(secret.values, x, mask.values);
  };
  CoreAnswer answer;
  answer.a = opened(witness_.a, mask_.a);
  answer.b = opened(witness_.b, mask_.b);
  answer.z = opened(witness_.z, mask_.z);
  answer.blind_a = witness_.a.blinding + x * mask_.a.blinding;
  answer.blind_b = witness_.b.blinding + x * mask_.b.blinding;
  answer.blind_z = witness_.z.blinding + x * mask_.z.blinding;
  answer.blind_product = blind_t0_ + x * blind_t1_ + x * x * blind_t2_;
  answer.blind_output = blind_t0_ + x * blind_tf_;
  if (mask_.y.values.empty()) return answer;
  answer.y = opened(witness_.y, mask_.y);
  answer.blind_y = witness_.y.blinding + x * mask_.y.blinding;
  answer.blind_link = x * blind_td_;
  return answer;
}

namespace {

std::optional<std::vector<AffinePoint>> decoded(const std::vector<PointBytes>& points) {
  std::vector<AffinePoint> out;
  for (const PointBytes& bytes : points) {
    const std::optional<Point> point = decode_point(bytes);
    if (!point) return std::nullopt;
    out.push_back(affine(*point));
  }
  return out;
}

bool sizes_fit(const Statement& statement, const Announcement& announcement,
               const CoreAnswer& answer) {
  const bool linked = statement.linked();
  return announcement.points.size() == kAnnouncedPoints + (linked ? kLinkedPoints : 0) &&
         answer.a.size() == answer.b.size() &&
         (statement.weights.empty() || statement.weights.size() == answer.a.size()) &&
         answer.z.size() == statement.q.size() && answer.y.size() == statement.w.size() &&
         (!linked || statement.e.size() == answer.a.size());
}

}  // namespace

void Equations::add_row(const Scalar& factor, const Scalars& values) {
  if (row_.size() < values.size()) row_.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) row_[i] = row_[i] + factor * values[i];
}

void Equations::add_point(const Scalar& factor, const AffinePoint& point) {
  factors_.push_back(factor);
  points_.push_back(point);
}

void Equations::add_derived(const Scalar& factor, const Derived& derived) {
  for (std::size_t i = 0; i < derived.points.size(); ++i) {
    add_point(factor * derived.factors[i], derived.points[i]);
  }
  add_row(factor, derived.columns);
}

bool Equations::add(const Statement& statement, const Announcement& announcement, const Scalar& x,
                    const CoreAnswer& answer) {
  if (!sizes_fit(statement, announcement, answer)) return false;
  const auto points = decoded(announcement.points);
  if (!points) return false;
  const Scalars k = random_scalars(7);
  const auto announced = [&](std::size_t i, const Scalar& factor) {
    add_point(negative(factor), (*points)[i]);
  };
  // 1..3: each opening is its commitment plus x times that of its mask.
  add_row(k[0], answer.a);
  add_row(k[1], answer.b);
  add_row(k[2], answer.z);
  add_derived(negative(k[0]), statement.a);
  add_derived(negative(k[1]), statement.b);
  add_derived(negative(k[2]), statement.z);
  for (std::size_t i = 0; i < 3; ++i) announced(i, k[i] * x);
  blinding_ = blinding_ + k[0] * answer.blind_a + k[1] * answer.blind_b + k[2] * answer.blind_z;
  // 4: the product of the openings is T0 + x T1 + x^2 T2. 5: the output's is T0 + x Tf.
  product_ = product_ + k[3] * weighted_dot(statement.weights, answer.a, answer.b) +
             k[4] * dot(answer.z, statement.q);
  announced(3, k[3] + k[4]);
  announced(4, k[3] * x);
  announced(5, k[3] * x * x);
  announced(6, k[4] * x);
  blinding_ = blinding_ + k[3] * answer.blind_product + k[4] * answer.blind_output;
  if (!statement.linked()) return true;
  // 6: the opening of y. 7: what the openings differ by under e and w is x Td.
  add_row(k[5], answer.y);
  add_derived(negative(k[5]), statement.y);
  announced(7, k[5] * x);
  announced(8, k[6] * x);
  product_ = product_ + k[6] * (dot(answer.a, statement.e) - dot(answer.y, statement.w));
  blinding_ = blinding_ + k[5] * answer.blind_y + k[6] * answer.blind_link;
  return true;
}

bool Equations::hold() const {
  const Generators& g = generators(row_.size());
  Scalars factors = factors_;
  std::vector<AffinePoint> points = points_;
  factors.insert(factors.end(), row_.begin(), row_.end());
  points.insert(points.end(), g.row.begin(),
                g.row.begin() + static_cast<std::ptrdiff_t>(row_.size()));
  factors.insert(factors.end(), {product_, blinding_});
  points.insert(points.end(), {g.product, g.blinding});
  return is_same(multi_multiply(factors, points), identity());
}

bool holds(const Statement& statement, const Announcement& announcement, const Scalar& x,
           const CoreAnswer& answer) {
  Equations equations;
  return equations.add(statement, announcement, x, answer) && equations.hold();
}

}  // namespace harmonics::zk
