#include "hadamard.h"

#include <algorithm>
#include <utility>

#include "msm.h"
#include "network_witness.h"
#include "residue.h"

namespace harmonics::zk {
namespace {

Scalar one() { return scalar_of(std::int64_t{1}); }

// eq(t, i) for all i, of the targets from `first` on; least bit first.
Scalars equalities(const Scalars& target, std::size_t first) {
  Scalars out = {one()};
  for (std::size_t bit = target.size(); bit-- > first;) {
    Scalars next(2 * out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      next[2 * i + 1] = out[i] * target[bit];
      next[2 * i] = out[i] - next[2 * i + 1];
    }
    out = std::move(next);
  }
  return out;
}

struct Coefficients {
  Scalar at_zero, leading;
};

// The first round is in small numbers: bits and sums of bits.
class FirstRound {
 public:
  FirstRound(const NetworkLayout& layout, const std::vector<std::vector<std::int8_t>>& rows)
      : layout_(layout), rows_(rows) {}

  [[nodiscard]] Coefficients coefficients(const HadamardChallenges& c) const {
    const Scalars rest = equalities(c.target, 1);
    Coefficients sum;
    for (std::size_t first = 0; first < pairs(); first += kChunk) {
      ColumnSums zero(layout_.columns), leading(layout_.columns);
      for (std::size_t i = first; i < std::min(pairs(), first + kChunk); ++i) {
        const Pair left = pair_of(i, &Constraint::left);
        const Pair right = pair_of(i, &Constraint::right);
        zero.add(rest[i], products(left.low, right.low));
        leading.add(rest[i], products(left.step, right.step));
      }
      sum.at_zero = sum.at_zero + dot(c.columns, zero.finish());
      sum.leading = sum.leading + dot(c.columns, leading.finish());
    }
    return sum;
  }

  using Table = std::vector<std::vector<Residue>>;
  [[nodiscard]] Table bound(const Scalar& r, LinearRow Constraint::*side) const {
    Table table;
    const Residue factor = residue_of(r);
    const Residue unit = residue_of(one());
    for (std::size_t i = 0; i < pairs(); ++i) {
      const Pair pair = pair_of(i, side);
      std::vector<Residue>& out = table.emplace_back(pair.low.size());
      for (std::size_t k = 0; k < out.size(); ++k) {
        out[k] = times(unit, pair.low[k]) + times(factor, pair.step[k]);
      }
    }
    return table;
  }

 private:
  // So few pairs that a column's products, of which the largest are of a number below 2^58 and a
  // bit, stay below 2^62 together.
  static constexpr std::size_t kChunk = 8;
  using Numbers = std::vector<std::int64_t>;
  struct Pair {
    Numbers low, step;
  };

  [[nodiscard]] std::size_t pairs() const { return (layout_.constraints.size() + 1) / 2; }

  [[nodiscard]] Pair pair_of(std::size_t i, LinearRow Constraint::*side) const {
    Pair pair{numbers_of(layout_.constraints[2 * i].*side, rows_), {}};
    if (2 * i + 1 < layout_.constraints.size()) {
      pair.step = numbers_of(layout_.constraints[2 * i + 1].*side, rows_);
    }
    const std::size_t width = std::max(pair.low.size(), pair.step.size());
    pair.low.resize(width);
    pair.step.resize(width);
    for (std::size_t k = 0; k < width; ++k) pair.step[k] -= pair.low[k];
    return pair;
  }

  static Numbers products(const Numbers& a, const Numbers& b) {
    Numbers out(a.size());
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = a[k] * b[k];
    return out;
  }

  static Residue times(const Residue& factor, std::int64_t small) {
    switch (small) {
      case 0: return {};
      case 1: return factor;
      case -1: return Residue{} - factor;
      default: return factor * residue_of(scalar_of(small));
    }
  }

  const NetworkLayout& layout_;
  const std::vector<std::vector<std::int8_t>>& rows_;
};

// The rounds after the first.
class Tables {
 public:
  Tables(FirstRound::Table left, FirstRound::Table right, const Scalars& columns)
      : left_(std::move(left)), right_(std::move(right)) {
    std::vector<Residue> weights;
    for (const Scalar& d : columns) weights.push_back(residue_of(d));
    for (auto& row : right_) {
      for (std::size_t k = 0; k < row.size(); ++k) row[k] = row[k] * weights[k];
    }
  }

  [[nodiscard]] Coefficients coefficients(const HadamardChallenges& c, std::size_t round) const {
    const Scalars rest = equalities(c.target, round + 1);
    Residue zero, leading;
    for (std::size_t i = 0; 2 * i < left_.size(); ++i) {
      const auto [at_zero, of_steps] = pair_sums(i);
      const Residue weight = residue_of(rest[i]);
      zero = zero + weight * at_zero;
      leading = leading + weight * of_steps;
    }
    return {scalar_of(zero), scalar_of(leading)};
  }

  void bind(const Scalar& r) {
    const Residue factor = residue_of(r);
    bind(factor, left_);
    bind(factor, right_);
  }

 private:
  [[nodiscard]] std::pair<Residue, Residue> pair_sums(std::size_t i) const {
    static const std::vector<Residue> kNothing;
    const bool paired = 2 * i + 1 < left_.size();
    const std::vector<Residue>& l0 = left_[2 * i];
    const std::vector<Residue>& r0 = right_[2 * i];
    const std::vector<Residue>& l1 = paired ? left_[2 * i + 1] : kNothing;
    const std::vector<Residue>& r1 = paired ? right_[2 * i + 1] : kNothing;
    Residue zero, leading;
    const auto at = [](const std::vector<Residue>& row, std::size_t k) {
      return k < row.size() ? row[k] : Residue{};
    };
    for (std::size_t k = 0; k < std::max(l0.size(), l1.size()); ++k) {
      const Residue a = at(l0, k);
      const Residue b = at(r0, k);
      zero = zero + a * b;
      leading = leading + (at(l1, k) - a) * (at(r1, k) - b);
    }
    return {zero, leading};
  }

  static void bind(const Residue& factor, FirstRound::Table& table) {
    const std::size_t pairs = (table.size() + 1) / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      std::vector<Residue> low = std::move(table[2 * i]);
      std::vector<Residue> high;
      if (2 * i + 1 < table.size()) high = std::move(table[2 * i + 1]);
      low.resize(std::max(low.size(), high.size()));
      high.resize(low.size());
      for (std::size_t k = 0; k < low.size(); ++k) low[k] = low[k] + factor * (high[k] - low[k]);
      table[i] = std::move(low);
    }
    table.resize(pairs);
  }

  FirstRound::Table left_, right_;
};

void commit_round(const Coefficients& coefficients, HadamardRounds& rounds) {
  for (const Scalar& value : {coefficients.at_zero, coefficients.leading}) {
    rounds.values.push_back(value);
    rounds.blindings.push_back(random_scalar());
    rounds.points.push_back(encode_point(commit({value}, rounds.blindings.back())));
  }
}

}  // namespace

HadamardChallenges hadamard_challenges(const NetworkLayout& layout, Transcript& transcript) {
  HadamardChallenges c;
  c.columns = transcript.challenges("column", layout.columns);
  c.target = transcript.challenges("target", layout.rounds());
  return c;
}

void draw_round(std::span<const PointBytes> commitments, Transcript& transcript,
                HadamardChallenges& c) {
  transcript.absorb("round", commitments);
  c.round.push_back(transcript.challenges("round challenge", 1).front());
}

Scalars claim_factors(const HadamardChallenges& c) {
  Scalars factors;
  for (std::size_t i = 0; i < c.round.size(); ++i) {
    const Scalar& r = c.round[i];
    // With claim = (1 - t) h(0) + t h(1) and m the leading coefficient,
    // h(r) = (1 - r) h(0) + r h(1) + (r^2 - r) m.
    const Scalar of_claim = r * inverse(c.target[i]);
    for (Scalar& factor : factors) factor = factor * of_claim;
    factors.push_back(one() - r - of_claim * (one() - c.target[i]));
    factors.push_back(r * r - r);
  }
  return factors;
}

HadamardEnds hadamard_ends(const NetworkLayout& layout, const HadamardChallenges& c) {
  HadamardEnds ends{Combination(layout.widths.size(), layout.columns),
                    Combination(layout.widths.size(), layout.columns)};
  const Scalars weights = equalities(c.round, 0);
  for (std::size_t i = 0; i < layout.constraints.size(); ++i) {
    ends.left.add(weights[i], layout.constraints[i].left);
    ends.right.add(weights[i], layout.constraints[i].right);
  }
  return ends;
}

HadamardRounds hadamard_rounds(const NetworkLayout& layout,
                               const std::vector<std::vector<std::int8_t>>& rows,
                               Transcript& transcript, HadamardChallenges& c) {
  HadamardRounds rounds;
  if (layout.rounds() == 0) return rounds;
  const FirstRound first(layout, rows);
  commit_round(first.coefficients(c), rounds);
  draw_round(rounds.points, transcript, c);
  Tables tables(first.bound(c.round[0], &Constraint::left),
                first.bound(c.round[0], &Constraint::right), c.columns);
  for (std::size_t round = 1; round < layout.rounds(); ++round) {
    commit_round(tables.coefficients(c, round), rounds);
    draw_round(std::span(rounds.points).last(2), transcript, c);
    if (round + 1 < layout.rounds()) tables.bind(c.round.back());
  }
  return rounds;
}

}  // namespace harmonics::zk
