#include "gather.h"

#include <gtest/gtest.h>

namespace harmonics::inline in_transport {
namespace {

constexpr auto kQuick = std::chrono::microseconds(5);

struct Moves {
  void come(int count, Nanoseconds apart, std::size_t bytes = 100) {
    for (int i = 0; i < count; ++i) gather.moved(bytes, opposite, now += apart);
  }
  Gather gather;
  std::uint64_t opposite = 0;
  Deadline now = Deadline() + std::chrono::hours(1);
};

TEST(Gather, BeginsAfterARunOfQuickMoves) {
  Moves run;
  run.come(8, kQuick);
  EXPECT_FALSE(run.gather.wanted()) << "the first move has no predecessor";
  run.come(1, kQuick);
  EXPECT_TRUE(run.gather.wanted());
}

TEST(Gather, APauseEndsTheRun) {
  Moves run;
  run.come(20, kQuick);
  run.come(1, Gather::kTime);
  EXPECT_FALSE(run.gather.wanted());
}

TEST(Gather, QuestionAndAnswerNeverGather) {
  Moves run;
  for (int i = 0; i < 1000; ++i) {
    run.come(1, kQuick);
    ++run.opposite;
    EXPECT_FALSE(run.gather.wanted());
  }
}

TEST(Gather, LargeMovesNeverGather) {
  Moves run;
  run.come(100, kQuick, 2 * Gather::kBytes);
  EXPECT_FALSE(run.gather.wanted());
}

TEST(Gather, WaitingInVainMakesItRarer) {
  Moves run;
  run.come(9, kQuick);
  run.gather.wasted();
  run.come(15, kQuick);
  EXPECT_FALSE(run.gather.wanted());
  run.come(1, kQuick);
  EXPECT_TRUE(run.gather.wanted());
  run.gather.paid();
  run.come(1, Gather::kTime);
  run.come(8, kQuick);
  EXPECT_TRUE(run.gather.wanted());
}

TEST(Gather, RarityHasACeiling) {
  Moves run;
  for (int i = 0; i < 100; ++i) run.gather.wasted();
  run.come((1 << 12) + 1, kQuick);
  EXPECT_TRUE(run.gather.wanted());
}

}  // namespace
}  // namespace harmonics::inline in_transport
