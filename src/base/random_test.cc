#include <harmonics/base/random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace harmonics::inline in_base {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors of Philox publish with their Random123 library.
TEST(Random, GivesTheKnownAnswersOfPhilox) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, ~std::uint64_t{0}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Worked out by an independent program: checkpoints and data splits rest on these never changing.
TEST(Random, KeysStreamsAndShufflesNeverDrift) {
  EXPECT_EQ(random_key(0, "split"), 0xb333e2fe83d5b8efull);
  EXPECT_EQ(random_key(7, "layer"), 0xdc6a415f10746292ull);
  Random stream(random_key(1, "x"), 3);
  const std::array<std::uint32_t, 6> expected = {0x0d2c0815, 0x05e7fce4, 0xc8d6c0e3,
                                                 0x559f7946, 0x1299337b, 0x6e541936};
  for (const std::uint32_t number : expected) EXPECT_EQ(stream(), number);

  std::vector<std::int64_t> rows(10);
  std::iota(rows.begin(), rows.end(), 0);
  Random random(0, "split");
  shuffle(rows, random);
  EXPECT_EQ(rows, (std::vector<std::int64_t>{1, 6, 5, 8, 2, 3, 4, 0, 7, 9}));
}

TEST(Random, FillsAnyLengthWithTheBlocksOfPhilox) {
  const std::uint64_t key = random_key(3, "dropout");
  const std::uint64_t sample = 0x1'0000'0002;
  for (const std::size_t size : {0u, 1u, 3u, 4u, 5u, 64u, 67u}) {
    std::vector<std::uint32_t> numbers(size + 1, 42);
    fill_random(key, 9, sample, std::span(numbers).first(size));
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(numbers[i], philox({static_cast<std::uint32_t>(i / 4), 9, 2, 1}, key)[i % 4]);
    }
    EXPECT_EQ(numbers[size], 42u) << "wrote past the end";
  }
}

TEST(Random, StreamsOfDifferentNamesSeedsAndNumbersDiffer) {
  std::set<std::uint32_t> firsts;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const char* name : {"a", "b", "ab", ""}) {
      for (std::uint64_t stream = 0; stream < 3; ++stream) {
        firsts.insert(Random(random_key(seed, name), stream)());
      }
    }
  }
  EXPECT_EQ(firsts.size(), 120u);
}

TEST(Random, ACopyForksTheSequence) {
  Random random(5, "fork");
  (void)random();
  Random copy = random;
  for (int i = 0; i < 9; ++i) EXPECT_EQ(random(), copy());
}

TEST(Random, BelowIsUniform) {
  Random random(1, "below");
  std::array<int, 10> counts{};
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) ++counts.at(random.below(10));
  double chi_squared = 0;
  for (const int count : counts)
    chi_squared += std::pow(count - kDraws / 10.0, 2) / (kDraws / 10.0);
  EXPECT_LT(chi_squared, 27.9) << "less likely than one in a thousand";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.below(1), 0u);
  const std::uint64_t huge = (std::uint64_t{1} << 63) + 1;  // rejects nearly half of the draws
  for (int i = 0; i < 1000; ++i) EXPECT_LT(random.below(huge), huge);
}

TEST(Random, UniformAndNormalHaveTheirMoments) {
  Random random(2, "moments");
  constexpr int kDraws = 200'000;
  double sum = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const float uniform = random.uniform();
    ASSERT_GE(uniform, 0.0f);
    ASSERT_LT(uniform, 1.0f);
    sum += uniform;
    const double normal = random.normal();
    ASSERT_TRUE(std::isfinite(normal));
    normal_sum += normal;
    normal_squares += normal * normal;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.003);
  EXPECT_NEAR(normal_sum / kDraws, 0.0, 0.01);
  EXPECT_NEAR(normal_squares / kDraws, 1.0, 0.02);
}

TEST(Random, ShuffleReachesEveryOrderEquallyOften) {
  std::array<int, 6> counts{};
  Random random(3, "orders");
  constexpr int kRounds = 60'000;
  for (int i = 0; i < kRounds; ++i) {
    std::array<std::int64_t, 3> values = {0, 1, 2};
    shuffle(values, random);
    const auto rank = values[0] * 2 + (values[1] > values[2] ? 1 : 0);
    ++counts.at(static_cast<std::size_t>(rank));
  }
  for (const int count : counts) EXPECT_NEAR(count, kRounds / 6, 500);
}

TEST(Random, ShuffleOfNothingOrOneDrawsNothing) {
  Random random(3, "few");
  Random untouched = random;
  std::array<std::int64_t, 1> one = {7};
  shuffle(one, random);
  shuffle({}, random);
  EXPECT_EQ(random(), untouched());
}

}  // namespace
}  // namespace harmonics::inline in_base
