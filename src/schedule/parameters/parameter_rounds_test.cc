#include "parameter_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <harmonics/base/random.h>

namespace harmonics::inline in_schedule {
namespace {

using Answer = ParameterRounds::Answer;
using Workers = std::vector<std::uint32_t>;

TEST(ParameterRounds, SynchronousUpdatesTakeAllWorkersInOrder) {
  ParameterRounds rounds(ParameterMode::Synchronous, 0, 3);
  EXPECT_EQ(rounds.joined(2), Answer{});
  EXPECT_EQ(rounds.joined(0), Answer{});
  EXPECT_FALSE(rounds.begun());
  EXPECT_EQ(rounds.joined(1), (Answer{{}, {0, 1, 2}}));
  EXPECT_EQ(rounds.pushed(1), Answer{});
  EXPECT_EQ(rounds.pushed(2), Answer{});
  EXPECT_EQ(rounds.pushed(0), (Answer{{0, 1, 2}, {0, 1, 2}}));
}

TEST(ParameterRounds, SynchronousUpdatesGoOnWithoutTheLost) {
  ParameterRounds rounds(ParameterMode::Synchronous, 0, 3);
  for (const std::uint32_t worker : {0, 1, 2}) static_cast<void>(rounds.joined(worker));
  EXPECT_EQ(rounds.pushed(0), Answer{});
  EXPECT_EQ(rounds.pushed(2), Answer{});
  EXPECT_EQ(rounds.left(1), (Answer{{0, 2}, {0, 2}}));
  // What the lost one had sent is dropped.
  EXPECT_EQ(rounds.pushed(0), Answer{});
  EXPECT_EQ(rounds.left(0), Answer{});
  EXPECT_EQ(rounds.pushed(2), (Answer{{2}, {2}}));
  // Whoever comes anew gets the parameters of the round under way and is waited for.
  EXPECT_EQ(rounds.joined(1), (Answer{{}, {1}}));
  EXPECT_EQ(rounds.pushed(2), Answer{});
  EXPECT_EQ(rounds.pushed(1), (Answer{{1, 2}, {1, 2}}));
}

TEST(ParameterRounds, BeginsWithThoseWhoCame) {
  ParameterRounds rounds(ParameterMode::Synchronous, 0, 4);
  EXPECT_EQ(rounds.joined(3), Answer{});
  EXPECT_EQ(rounds.begin(), (Answer{{}, {3}}));
  EXPECT_EQ(rounds.pushed(3), (Answer{{3}, {3}}));
}

TEST(ParameterRounds, TheFastWaitForTheSlowest) {
  ParameterRounds rounds(ParameterMode::BoundedStaleness, 2, 2);
  EXPECT_EQ(rounds.joined(0), Answer{});
  EXPECT_EQ(rounds.joined(1), (Answer{{}, {0, 1}}));
  EXPECT_EQ(rounds.pushed(0), (Answer{{0}, {0}}));
  EXPECT_EQ(rounds.pushed(0), (Answer{{0}, {0}}));
  EXPECT_EQ(rounds.pushed(0), (Answer{{0}, {}}));  // three ahead: applied, but not answered
  EXPECT_EQ(rounds.pushed(1), (Answer{{1}, {0, 1}}));
  EXPECT_EQ(rounds.longest_lead(), 2);
  EXPECT_EQ(rounds.pushed(0), (Answer{{0}, {}}));
  EXPECT_EQ(rounds.left(1), (Answer{{}, {0}}));  // nobody is slower any more
}

// Any order of events: nobody works who is too far ahead, every gradient is applied once unless its
// worker left first, and the slowest is never kept waiting.
TEST(ParameterRounds, RandomEventsKeepTheBound) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed, "parameter rounds");
    const auto workers = static_cast<std::uint32_t>(1 + random.below(5));
    const auto bound = static_cast<std::uint32_t>(random.below(4));
    const bool together = random.below(2) == 0;
    ParameterRounds rounds(together ? ParameterMode::Synchronous : ParameterMode::BoundedStaleness,
                           bound, workers);
    enum class Is { kAway, kWaiting, kWorking };
    std::vector<Is> is(workers, Is::kAway);
    std::vector<std::uint64_t> clock(workers, 0);
    std::vector<int> unapplied(workers, 0);
    for (int event = 0; event < 200; ++event) {
      const auto worker = static_cast<std::uint32_t>(random.below(workers));
      Answer answer;
      if (is[worker] == Is::kAway) {
        std::uint64_t slowest = ~std::uint64_t{0};
        for (std::uint32_t i = 0; i < workers; ++i) {
          if (is[i] != Is::kAway) slowest = std::min(slowest, clock[i]);
        }
        clock[worker] = slowest == ~std::uint64_t{0} ? 0 : slowest;
        is[worker] = Is::kWaiting;
        answer = rounds.joined(worker);
      } else if (random.below(10) == 0) {
        is[worker] = Is::kAway;
        unapplied[worker] = 0;
        answer = rounds.left(worker);
      } else if (is[worker] == Is::kWorking) {
        is[worker] = Is::kWaiting;
        ++clock[worker];
        ++unapplied[worker];
        answer = rounds.pushed(worker);
      } else {
        continue;
      }
      for (const std::uint32_t one : answer.apply) {
        ASSERT_EQ(unapplied[one]--, 1) << "seed " << seed;
      }
      for (const std::uint32_t one : answer.release) {
        ASSERT_EQ(is[one], Is::kWaiting);
        is[one] = Is::kWorking;
        ASSERT_EQ(unapplied[one], 0);
      }
      if (!rounds.begun()) continue;
      bool someone_works = false;
      std::uint64_t slowest = ~std::uint64_t{0};
      for (std::uint32_t i = 0; i < workers; ++i) {
        if (is[i] == Is::kAway) continue;
        someone_works |= is[i] == Is::kWorking;
        slowest = std::min(slowest, clock[i]);
      }
      ASSERT_TRUE(someone_works || slowest == ~std::uint64_t{0}) << "seed " << seed;
      for (std::uint32_t i = 0; i < workers && !together; ++i) {
        ASSERT_TRUE(is[i] != Is::kWorking || clock[i] - slowest <= bound) << "seed " << seed;
      }
    }
    ASSERT_LE(rounds.longest_lead(), bound);
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule
