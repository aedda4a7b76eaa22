// That the proofs show nothing: a simulator without the secrets, and openings that look random.
#include <gtest/gtest.h>

#include <array>

#include "codec.h"
#include "core.h"
#include "zk_testing.h"

namespace harmonics::zk {
namespace {

AffinePoint random_commitment() { return affine(commit(random_scalars(3), random_scalar())); }

Point value_of(const Derived& derived) {
  return add(multi_multiply(derived.factors, derived.points), commit(derived.columns, Scalar{}));
}

Point scaled(const Scalar& factor, const Point& point) {
  const AffinePoint prepared = affine(point);
  return multi_multiply(std::span(&factor, 1), std::span(&prepared, 1));
}

Point minus(const Point& a, const Point& b) { return add(a, negative(b)); }

Point product_commitment(const Scalar& value, const Scalar& blinding) {
  const Generators& g = generators(1);
  return add(multiply(value, g.product_bytes), multiply(blinding, g.blinding_bytes));
}

// Commitments to who knows what: nobody has a witness, and almost surely there is none.
enum class Kind { kPlain, kLinked, kWeighted };
constexpr Kind kKinds[] = {Kind::kPlain, Kind::kLinked, Kind::kWeighted};

Statement random_statement(Kind kind) {
  const auto derived = [] {
    return Derived{
        random_scalars(4),
        {random_commitment(), random_commitment(), random_commitment(), random_commitment()},
        random_scalars(3)};
  };
  Statement statement;
  statement.a = derived();
  statement.b = derived();
  statement.z = derived();
  statement.q = random_scalars(6);
  if (kind == Kind::kWeighted) statement.weights = random_scalars(5);
  if (kind == Kind::kLinked) {
    statement.y = derived();
    statement.e = random_scalars(5);
    statement.w = random_scalars(7);
  }
  return statement;
}

CoreAnswer random_answer(const Statement& statement) {
  CoreAnswer answer;
  answer.a = random_scalars(5);
  answer.b = random_scalars(5);
  answer.z = random_scalars(statement.q.size());
  answer.y = random_scalars(statement.w.size());
  for (Scalar* blinding : {&answer.blind_a, &answer.blind_b, &answer.blind_z, &answer.blind_product,
                           &answer.blind_output, &answer.blind_y, &answer.blind_link}) {
    *blinding = random_scalar();
  }
  return answer;
}

// Chooses the challenge and the answer first, then the announcement that fits: what an oracle that
// one programs allows, and a hash does not.
Announcement simulated(const Statement& statement, const Scalar& x, const CoreAnswer& answer) {
  const Scalar by_x = inverse(x);
  const auto mask = [&](const Scalars& values, const Scalar& blinding, const Derived& of) {
    return scaled(by_x, minus(commit(values, blinding), value_of(of)));
  };
  const Point t1 = product_commitment(random_scalar(), random_scalar());
  const Point t2 = product_commitment(random_scalar(), random_scalar());
  Scalars weighted = answer.a;
  for (std::size_t i = 0; i < statement.weights.size(); ++i) {
    weighted[i] = weighted[i] * statement.weights[i];
  }
  const Point t0 =
      minus(minus(product_commitment(dot(weighted, answer.b), answer.blind_product), scaled(x, t1)),
            scaled(x * x, t2));
  const Point tf =
      scaled(by_x, minus(product_commitment(dot(answer.z, statement.q), answer.blind_output), t0));
  Announcement announcement;
  for (const Point& point :
       {mask(answer.a, answer.blind_a, statement.a), mask(answer.b, answer.blind_b, statement.b),
        mask(answer.z, answer.blind_z, statement.z), t0, t1, t2, tf}) {
    announcement.points.push_back(encode_point(point));
  }
  if (statement.linked()) {
    const Scalar difference = dot(answer.a, statement.e) - dot(answer.y, statement.w);
    announcement.points.push_back(encode_point(mask(answer.y, answer.blind_y, statement.y)));
    announcement.points.push_back(
        encode_point(scaled(by_x, product_commitment(difference, answer.blind_link))));
  }
  return announcement;
}

TEST(ZkKnowledge, ASimulatorWithoutTheWitnessConvinces) {
  for (const Kind kind : kKinds) {
    for (int i = 0; i < 20; ++i) {
      const Statement statement = random_statement(kind);
      const Scalar x = random_scalar();
      const CoreAnswer answer = random_answer(statement);
      const Announcement announcement = simulated(statement, x, answer);
      EXPECT_TRUE(holds(statement, announcement, x, answer));
      // With a challenge that it could not choose it does not.
      EXPECT_FALSE(holds(statement, announcement, random_scalar(), answer));
    }
  }
}

// Each equation counts: one wrong number in an answer, and the sum is not zero.
TEST(ZkKnowledge, EveryPartOfAnAnswerCounts) {
  for (const Kind kind : kKinds) {
    const Statement statement = random_statement(kind);
    const Scalar x = random_scalar();
    const CoreAnswer answer = random_answer(statement);
    const Announcement announcement = simulated(statement, x, answer);
    const auto wrong = [&](Scalar& part, CoreAnswer& changed) {
      part = part + scalar_of(1);
      EXPECT_FALSE(holds(statement, announcement, x, changed));
    };
    for (const auto vector : {&CoreAnswer::a, &CoreAnswer::b, &CoreAnswer::z, &CoreAnswer::y}) {
      for (std::size_t i = 0; i < (answer.*vector).size(); ++i) {
        CoreAnswer changed = answer;
        wrong((changed.*vector)[i], changed);
      }
    }
    for (const auto blinding : {&CoreAnswer::blind_a, &CoreAnswer::blind_b, &CoreAnswer::blind_z,
                                &CoreAnswer::blind_product, &CoreAnswer::blind_output,
                                &CoreAnswer::blind_y, &CoreAnswer::blind_link}) {
      if (kind != Kind::kLinked &&
          (blinding == &CoreAnswer::blind_y || blinding == &CoreAnswer::blind_link)) {
        continue;
      }
      CoreAnswer changed = answer;
      wrong(changed.*blinding, changed);
    }
  }
}

// Openings of one and the same secret, over and over: their bytes are uniform. The statistic has
// 255 degrees of freedom; 370 is beyond 1 in 10^5, and the top byte is below 16 by definition.
TEST(ZkKnowledge, OpeningsAreUniform) {
  TestStage stage(dense_shape(2, 64, 64), 3);
  std::fill(stage.input.begin(), stage.input.end(), std::int8_t{0});
  std::fill(stage.output.begin(), stage.output.end(), 0);
  std::array<std::uint64_t, 256> low{};
  std::array<std::uint64_t, 16> top{};
  std::uint64_t count = 0;
  for (int i = 0; i < 60; ++i) {
    const StageProof proof = decode_proof(stage.prove());
    for (const Scalars* values : {&proof.answer.a, &proof.answer.b, &proof.answer.z}) {
      for (const Scalar& value : *values) {
        for (int byte = 0; byte < 31; ++byte) ++low[value.bytes[byte]];
        ++top[value.bytes[31]];
        ++count;
      }
    }
  }
  const auto statistic = [](const auto& cells, double expected) {
    double sum = 0;
    for (const std::uint64_t cell : cells) {
      const double difference = static_cast<double>(cell) - expected;
      sum += difference * difference / expected;
    }
    return sum;
  };
  EXPECT_LT(statistic(low, static_cast<double>(count) * 31 / 256), 370);
  EXPECT_LT(statistic(top, static_cast<double>(count) / 16), 50);
}

TEST(ZkKnowledge, TwoProofsOfOneStageShareNoOpening) {
  const TestStage stage(dense_shape(2, 4, 3), 3);
  const StageProof one = decode_proof(stage.prove());
  const StageProof two = decode_proof(stage.prove());
  EXPECT_EQ(one.inputs, two.inputs);
  EXPECT_NE(one.announcement.points, two.announcement.points);
  for (std::size_t i = 0; i < one.answer.a.size(); ++i) {
    EXPECT_NE(one.answer.a[i], two.answer.a[i]);
  }
}

TEST(ZkKnowledge, CommitmentsOfEqualRowsDiffer) {
  TestStage stage(dense_shape(3, 8, 2), 3);
  std::fill(stage.input.begin(), stage.input.end(), std::int8_t{5});
  const StageProof proof = decode_proof(stage.prove());
  EXPECT_NE(proof.inputs[0], proof.inputs[1]);
  EXPECT_NE(proof.inputs[1], proof.inputs[2]);
}

}  // namespace
}  // namespace harmonics::zk
