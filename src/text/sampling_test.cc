#include <harmonics/text/sampling.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include <harmonics/base/error.h>

#include "error_testing.h"

namespace harmonics::inline in_text {
namespace {

const std::vector<float> kLogits = {1, 3, 2, 3, -1};

TEST(Sampling, WithoutTemperatureTheFirstOfTheMostLikely) {
  EXPECT_EQ(choose_token(kLogits, {}, 7, 3), 1);
  const auto likeliest = likeliest_tokens(kLogits, 3);
  ASSERT_EQ(likeliest.size(), 3u);
  EXPECT_EQ(likeliest[0].id, 1);
  EXPECT_EQ(likeliest[1].id, 3);
  EXPECT_EQ(likeliest[2].id, 2);
  const double all = 2 * std::exp(3.0) + std::exp(2.0) + std::exp(1.0) + std::exp(-1.0);
  EXPECT_NEAR(logprob_of(kLogits, 2), 2 - std::log(all), 1e-12);
  EXPECT_NEAR(likeliest[0].logprob, 3 - std::log(all), 1e-12);
}

TEST(Sampling, DrawsByProbability) {
  std::map<std::int64_t, int> seen;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) ++seen[choose_token(kLogits, {.temperature = 2}, 99, i)];
  double all = 0;
  for (const float logit : kLogits) all += std::exp(logit / 2.0);
  for (std::size_t id = 0; id < kLogits.size(); ++id) {
    const double want = std::exp(kLogits[id] / 2.0) / all;
    EXPECT_NEAR(seen[static_cast<std::int64_t>(id)] / static_cast<double>(kDraws), want, 0.02);
  }
}

TEST(Sampling, KeepsToItsBounds) {
  for (int i = 0; i < 500; ++i) {
    const auto of_two = choose_token(kLogits, {.temperature = 5, .top_k = 2}, 1, i);
    EXPECT_TRUE(of_two == 1 || of_two == 3);
    const auto of_most = choose_token(kLogits, {.temperature = 1, .top_p = 0.5}, 1, i);
    EXPECT_TRUE(of_most == 1 || of_most == 3);
  }
}

TEST(Sampling, IsAFunctionOfSeedPromptAndPosition) {
  const std::vector<std::int64_t> one = {1, 2, 3}, other = {1, 2, 4};
  EXPECT_EQ(sampling_key(5, one), sampling_key(5, one));
  EXPECT_NE(sampling_key(5, one), sampling_key(6, one));
  EXPECT_NE(sampling_key(5, one), sampling_key(5, other));
  int differs = 0;
  for (int i = 0; i < 100; ++i) {
    const SamplingOptions free{.temperature = 5};
    EXPECT_EQ(choose_token(kLogits, free, 3, i), choose_token(kLogits, free, 3, i));
    differs += choose_token(kLogits, free, 3, i) != choose_token(kLogits, free, 4, i) ? 1 : 0;
  }
  EXPECT_GT(differs, 20);
}

TEST(Sampling, SaysWhatIsWrong) {
  expect_error(ErrorCode::kInvalidArgument, "top_p is 0",
               [] { SamplingOptions{.top_p = 0}.check(); });
  expect_error(ErrorCode::kInvalidArgument, "top_k is -1",
               [] { SamplingOptions{.top_k = -1}.check(); });
  const std::vector<float> broken(4, std::numeric_limits<float>::quiet_NaN());
  expect_error(ErrorCode::kDataLoss, "no finite number",
               [&] { (void)choose_token(broken, {}, 1, 1); });
}

}  // namespace
}  // namespace harmonics::inline in_text
