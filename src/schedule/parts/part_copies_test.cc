// Whose turn it is, and what boundaries between copies are called.
#include <harmonics/schedule/part_copies.h>

#include <gtest/gtest.h>

#include <harmonics/base/random.h>

#include <error_testing.h>

namespace harmonics::inline in_schedule {
namespace {

std::vector<std::size_t> first_turns(const CopyTurns& turns, std::uint64_t count) {
  std::vector<std::size_t> copies;
  for (std::uint64_t number = 0; number < count; ++number) copies.push_back(turns.copy_of(number));
  return copies;
}

TEST(CopyTurns, AreSpreadEvenlyByWeight) {
  using Order = std::vector<std::size_t>;
  EXPECT_EQ(first_turns(CopyTurns(), 3), (Order{0, 0, 0}));
  EXPECT_EQ(first_turns(CopyTurns({1, 1}), 4), (Order{0, 1, 0, 1}));
  EXPECT_EQ(first_turns(CopyTurns({2, 1}), 6), (Order{0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(first_turns(CopyTurns({5, 1, 1}), 7), (Order{0, 0, 1, 0, 2, 0, 0}));
  EXPECT_EQ(CopyTurns({20, 10}), CopyTurns({2, 1}));
  EXPECT_DOUBLE_EQ(CopyTurns({2, 1}).share_of(0), 2.0 / 3);
}

// However the weights are, no copy is ever more than a turn away from its due.
TEST(CopyTurns, NoCopyRunsAheadOfItsShare) {
  Random random(7, "turns");
  for (int round = 0; round < 40; ++round) {
    std::vector<std::uint32_t> weights;
    for (std::int64_t i = 0, count = 1 + random.below(6); i < count; ++i) {
      weights.push_back(static_cast<std::uint32_t>(1 + random.below(9)));
    }
    const CopyTurns turns(weights);
    std::vector<double> taken(weights.size(), 0);
    for (std::uint64_t number = 0; number < 200; ++number) {
      taken[turns.copy_of(number)] += 1;
      for (std::size_t copy = 0; copy < taken.size(); ++copy) {
        const double due = turns.share_of(copy) * static_cast<double>(number + 1);
        EXPECT_LT(std::abs(taken[copy] - due), 1 + 1e-9 + static_cast<double>(weights.size()) / 2);
      }
      const std::size_t next = turns.next_of(turns.copy_of(number), number);
      EXPECT_EQ(next, number);
    }
  }
}

TEST(CopyTurns, EveryNumberIsOneCopysOwn) {
  const CopyTurns turns({3, 1, 2});
  std::vector<int> claimed(60, 0);
  for (std::size_t copy = 0; copy < 3; ++copy) {
    for (std::uint64_t n = turns.next_of(copy, 0); n < 60; n = turns.next_of(copy, n + 1)) {
      ++claimed[n];
    }
  }
  EXPECT_EQ(claimed, std::vector<int>(60, 1));
}

TEST(CopyTurns, WhatMakesNoSenseIsAnError) {
  expect_error(ErrorCode::kInvalidArgument, "1 to 256 copies, not 0",
               [] { static_cast<void>(CopyTurns(std::vector<std::uint32_t>{})); });
  expect_error(ErrorCode::kInvalidArgument, "1 to 256 copies, not 257",
               [] { static_cast<void>(CopyTurns(std::vector<std::uint32_t>(257, 1))); });
  expect_error(ErrorCode::kInvalidArgument, "1 to 1000 turns in a round, not 0", [] {
    static_cast<void>(CopyTurns({1, 0}));
  });
  expect_error(ErrorCode::kInvalidArgument, "1 to 1000 turns in a round, not 1001", [] {
    static_cast<void>(CopyTurns({1001, 1}));
  });
}

TEST(PartCopies, BothEndsOfAChannelCallItTheSame) {
  const PartCopies sender{CopyTurns({1, 1}), 1, {{"h@1", CopyTurns({2, 1, 1})}}};
  const PartCopies taker{CopyTurns({2, 1, 1}), 2, {{"h@1", CopyTurns({1, 1})}}};
  EXPECT_EQ(leaving_channels(sender, "h@1").at(2), entering_channels(taker, "h@1").at(1));
  EXPECT_EQ(leaving_channels(sender, "h@1").at(2), "h@1~1of2~2of3");
  EXPECT_EQ(boundary_of("h@1~1of2~2of3"), "h@1");
  EXPECT_EQ(boundary_of("h@1"), "h@1");
  EXPECT_EQ(leaving_channels({}, "h@1"), std::vector<std::string>{"h@1"});
  EXPECT_TRUE(sender.any());
  EXPECT_FALSE(PartCopies{}.any());
}

}  // namespace
}  // namespace harmonics::inline in_schedule
