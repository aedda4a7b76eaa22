#include <harmonics/schedule/token_profile.h>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include "small_model_testing.h"

namespace harmonics::inline in_schedule {
namespace {

// A millisecond passes each time somebody looks.
class CountingClock final : public Clock {
 public:
  Nanoseconds now() const override { return now_ += std::chrono::milliseconds(1); }

 private:
  mutable Nanoseconds now_{0};
};

TokenProfileOptions few() {
  TokenProfileOptions options;
  options.sequences = {1, 3};
  options.context = 64;
  options.chunk = 16;
  return options;
}

TEST(TokenProfile, MeasuresEveryUnitOfEveryStep) {
  const HarmonicGraph graph = small_llama(2, 50, 100);
  std::size_t heard = 0;
  const TokenProfile profile =
      profile_tokens(graph, drawn_weights(graph), few(), CountingClock(),
                     [&](std::size_t done, std::size_t) { EXPECT_EQ(done, heard++); });
  const std::size_t layers = graph.layers().size();  // without groups each is a unit
  EXPECT_EQ(profile.model.layers(), layers);
  EXPECT_EQ(heard, 6U);
  ASSERT_EQ(profile.times.size(), 6U);
  for (const TokenTimes& one : profile.times) {
    EXPECT_EQ(one.time_s, std::vector<double>(layers, 0.001));
  }
  // Five repeats behind two that do not count: in the middle of them.
  EXPECT_EQ(profile.times[0].context, 5);
  EXPECT_EQ(profile.times[1].context, 61);
  EXPECT_EQ(profile.times[2].sequences, 3);
  EXPECT_EQ(profile.times[4].tokens, 16);
  EXPECT_EQ(profile.times[5].context, 48);
  // Ids come in as numbers of 8 bytes, logits of the whole vocabulary go out.
  EXPECT_EQ(profile.model.parameters_in, 2);
  EXPECT_EQ(profile.model.parameters_out.front(), 24);
  EXPECT_EQ(profile.model.parameters_out.back(), 50);
  // Two attentions with two heads of four keys and values each.
  std::int64_t cache = 0;
  for (const std::int64_t bytes : profile.model.cache_bytes) cache += bytes;
  EXPECT_EQ(cache, 2 * 2 * 2 * 4 * 4);
  EXPECT_NEAR(profile.model.memory_mb.front(), 50 * 24 * 4 / 1048576.0, 1e-9);
}

TEST(TokenProfile, AContextBeyondTheModelAndCachesBeyondTheMemoryAreErrors) {
  const HarmonicGraph graph = small_llama(1, 50, 100);
  const WeightSource weights = drawn_weights(graph);
  TokenProfileOptions options = few();
  options.context = 101;
  EXPECT_THROW((void)profile_tokens(graph, weights, options, CountingClock()), Error);
  options = few();
  options.context = 12;
  EXPECT_THROW((void)profile_tokens(graph, weights, options, CountingClock()), Error);
  options = few();
  options.cache_bytes = 4096;
  EXPECT_THROW((void)profile_tokens(graph, weights, options, CountingClock()), Error);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
