// Proofs of stages: honest ones are accepted, forged ones are not.
#include <harmonics/zk/zk.h>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include <campaign_testing.h>

#include "zk_testing.h"

namespace harmonics::inline in_zk {
namespace {

std::vector<LinearShape> some_shapes() {
  return {dense_shape(1, 1, 1),      dense_shape(8, 32, 32),      dense_shape(3, 70, 5),
          dense_shape(2, 5, 90),     conv_shape(1, 1, 1, 1, 1),   conv_shape(2, 3, 4, 5, 6),
          conv_shape(3, 2, 5, 4, 4), conv_shape(1, 8, 2, 12, 10), conv_shape(2, 1, 1, 1, 7)};
}

TEST(Zk, HonestStagesVerify) {
  std::uint64_t seed = 1;
  for (const LinearShape& shape : some_shapes()) {
    const TestStage stage(shape, seed++);
    const Bytes proof = stage.prove();
    EXPECT_EQ(verify_stage_proof(proof, stage.committed_weights, stage.context), shape);
  }
}

TEST(Zk, TheLargestNumbersVerify) {
  TestStage stage(dense_shape(2, 64, 3), 1);
  std::fill(stage.input.begin(), stage.input.end(), std::int8_t{-128});
  std::fill(stage.weights.begin(), stage.weights.end(), std::int8_t{-128});
  stage.output = linear_product(stage.shape, stage.input, stage.weights);
  EXPECT_EQ(stage.output[0], 64 * 128 * 128);
  stage.commit();
  EXPECT_FALSE(stage.verdict(stage.prove()));
}

// One element of the output, the input or the weights is another than the one that was multiplied.
void forge(TestStage& stage, Random& random) {
  const auto change = [&](auto& tensor) {
    auto& value = tensor[random.below(tensor.size())];
    using Value = std::remove_reference_t<decltype(value)>;
    Value other = value;
    while (other == value)
      other = static_cast<Value>(value + static_cast<int>(random.below(101)) - 50);
    value = other;
  };
  switch (random.below(3)) {
    case 0: change(stage.output); return;
    case 1: {
      // A change of the input that the product does not show is no forgery.
      change(stage.input);
      if (linear_product(stage.shape, stage.input, stage.weights) == stage.output)
        ++stage.output[0];
      return;
    }
    default:
      change(stage.weights);
      if (linear_product(stage.shape, stage.input, stage.weights) == stage.output)
        ++stage.output[0];
      stage.commit();
  }
}

void expect_forgeries_rejected(const LinearShape& shape, int count) {
  const TestStage honest(shape, 77);
  ASSERT_FALSE(honest.verdict(honest.prove()));
  Random random(9, "forgeries");
  for (int i = 0; i < count; ++i) {
    TestStage stage = honest;
    forge(stage, random);
    ASSERT_EQ(stage.verdict(stage.prove()), Breach::kWrongProof) << i;
  }
}

TEST(Zk, ForgedDenseStagesAreRejected) {
  expect_forgeries_rejected(dense_shape(8, 32, 32), soaks() ? 10'000 : 250);
}

TEST(Zk, ForgedConvolutionsAreRejected) {
  expect_forgeries_rejected(conv_shape(2, 3, 3, 6, 6), soaks() ? 2'000 : 100);
}

TEST(Zk, ForgedStagesOfFullSizeAreRejected) {
  expect_forgeries_rejected(dense_shape(256, 1024, 1024), soaks() ? 20 : 1);
}

// A proof is for its own commitments, weights and context.
TEST(Zk, AProofHoldsForNothingElse) {
  for (const LinearShape& shape : {dense_shape(4, 20, 10), conv_shape(2, 2, 3, 4, 4)}) {
    TestStage stage(shape, 5);
    const Bytes proof = stage.prove();
    ASSERT_FALSE(stage.verdict(proof));
    TestStage other = stage;
    other.context[0] ^= std::byte{1};
    EXPECT_EQ(other.verdict(proof), Breach::kWrongProof);
    // The same weights under other blindings.
    other = stage;
    other.weight_seed = new_blinding_seed();
    other.commit();
    EXPECT_EQ(other.verdict(proof), Breach::kWrongProof);
    // Weights of another shape.
    const TestStage wider(dense_shape(4, 21, 10), 6);
    EXPECT_EQ(wider.verdict(proof), Breach::kWrongProof);
  }
}

TEST(Zk, EveryChangedProofIsRejected) {
  Random random(11, "proofs");
  for (const LinearShape& shape : {dense_shape(4, 8, 6), conv_shape(1, 2, 2, 3, 3)}) {
    const TestStage stage(shape, 5);
    const Bytes honest = stage.prove();
    for (int i = 0; i < (soaks() ? 20'000 : 1'500); ++i) {
      Bytes proof = honest;
      switch (random.below(4)) {
        case 0: proof.resize(random.below(proof.size())); break;
        case 1: proof.push_back(std::byte{0}); break;
        case 2: {  // two of the same kind change places
          const std::size_t words = (proof.size() - 22) / 32;
          const auto a = proof.begin() + 22 + 32 * static_cast<std::ptrdiff_t>(random.below(words));
          const auto b = proof.begin() + 22 + 32 * static_cast<std::ptrdiff_t>(random.below(words));
          if (a != b) std::swap_ranges(a, a + 32, b);
          break;
        }
        default: proof[random.below(proof.size())] ^= static_cast<std::byte>(1u << random.below(8));
      }
      if (proof == honest) continue;
      const auto verdict = stage.verdict(proof);
      ASSERT_TRUE(verdict == Breach::kWrongProof || verdict == Breach::kMalformed) << i;
    }
  }
}

TEST(Zk, NeighboursCheckTheRowsThatTheyHold) {
  for (const LinearShape& shape : {dense_shape(5, 12, 7), conv_shape(2, 2, 3, 4, 4)}) {
    const TestStage stage(shape, 8);
    const Bytes proof = stage.prove();
    const std::vector<std::uint32_t> rows = {0, 2, 3};
    check_output_rows(proof, stage.output, stage.output_seed, rows);
    check_input_rows(proof, stage.input, stage.input_seed, rows);
    std::vector<std::int32_t> output = stage.output;
    output[2 * shape.output_columns()] += 1;
    EXPECT_THROW(check_output_rows(proof, output, stage.output_seed, rows), CustodyError);
    const std::vector<std::uint32_t> others = {0, 1};
    check_output_rows(proof, output, stage.output_seed, others);
    output[0] = INT32_MIN;
    EXPECT_THROW(check_output_rows(proof, output, stage.output_seed, others), CustodyError);
    std::vector<std::int8_t> input = stage.input;
    input[0] = static_cast<std::int8_t>(input[0] ^ 1);
    EXPECT_THROW(check_input_rows(proof, input, stage.input_seed, rows), CustodyError);
    EXPECT_THROW(check_input_rows(proof, stage.input, stage.output_seed, rows), CustodyError);
    const std::vector<std::uint32_t> beyond = {1000};
    EXPECT_THROW(check_input_rows(proof, stage.input, stage.input_seed, beyond), Error);
  }
}

TEST(Zk, SizesAndShapesThatDoNotFitAreErrors) {
  const TestStage stage(dense_shape(2, 3, 4), 1);
  EXPECT_THROW((void)linear_product(stage.shape, stage.weights, stage.weights), Error);
  for (const LinearShape& shape :
       {dense_shape(0, 1, 1), dense_shape(1, 0, 1), dense_shape(kMaxProofRows + 1, 1, 1),
        conv_shape(1, 1, 1, 0, 1), conv_shape(1, 1, 1, 300, 300), conv_shape(300, 300, 1, 1, 1)}) {
    EXPECT_THROW((void)commit_weights(shape, stage.weights, stage.weight_seed), Error);
  }
  LinearShape pixels = dense_shape(2, 3, 4);
  pixels.height = 2;
  EXPECT_THROW((void)commit_weights(pixels, stage.weights, stage.weight_seed), Error);
  // No sum of these products can be so large.
  TestStage large(dense_shape(1, 1, 1), 1);
  large.output[0] = INT32_MAX;
  EXPECT_THROW((void)large.prove(), Error);
}

TEST(Zk, AProofOfFullSizeIsSmall) {
  const TestStage stage(dense_shape(256, 1024, 1024), 2);
  const Bytes proof = stage.prove();
  EXPECT_FALSE(stage.verdict(proof));
  EXPECT_LE(proof.size(), std::size_t{128} << 10);
}

}  // namespace
}  // namespace harmonics::inline in_zk
