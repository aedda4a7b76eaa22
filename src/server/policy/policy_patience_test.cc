#include "policy_patience.h"

#include <gtest/gtest.h>

namespace harmonics::inline in_server {
namespace {

using Verdict = PolicyPatience::Verdict;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(PolicyPatience, ThePassBudgetIsSpentOnceAndSaidOnce) {
  PolicyPatience patience;
  patience.begin_pass();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(patience.may_ask(seconds(1)), Verdict::kAsk);
    EXPECT_EQ(patience.answered(milliseconds(50), seconds(1)), Nanoseconds{});
  }
  EXPECT_EQ(patience.may_ask(seconds(1)), Verdict::kSpent);
  EXPECT_EQ(patience.may_ask(seconds(1)), Verdict::kLeaveOut);
  patience.begin_pass();
  EXPECT_EQ(patience.may_ask(seconds(1)), Verdict::kAsk);
}

TEST(PolicyPatience, SlowPassesInARowAreEnough) {
  PolicyPatience patience;
  Nanoseconds ban{};
  int passes = 0;
  for (; passes < 10 && ban == Nanoseconds{}; ++passes) {
    patience.begin_pass();
    patience.begin_pass();  // one that did not ask is no excuse
    ban = patience.answered(PolicyPatience::kPassBudget, seconds(1));
  }
  EXPECT_EQ(passes, PolicyPatience::kMaxSlowPasses);
  EXPECT_EQ(ban, PolicyPatience::kFirstBan);

  PolicyPatience better;
  for (int i = 0; i < 20; ++i) {
    better.begin_pass();
    const Nanoseconds took = i % 2 == 0 ? PolicyPatience::kPassBudget : milliseconds(1);
    EXPECT_EQ(better.answered(took, seconds(1)), Nanoseconds{}) << "not in a row";
  }
}

TEST(PolicyPatience, WhoIsLateIsLeftOutAndComesBack) {
  PolicyPatience patience;
  patience.begin_pass();
  Nanoseconds now = seconds(5);
  Nanoseconds length = PolicyPatience::kFirstBan;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(patience.late(now), length);
    EXPECT_EQ(patience.may_ask(now), Verdict::kLeaveOut);
    EXPECT_EQ(patience.may_ask(now + length - Nanoseconds(1)), Verdict::kLeaveOut);
    now += length;
    EXPECT_EQ(patience.may_ask(now), Verdict::kAskAgain);
    EXPECT_EQ(patience.may_ask(now), Verdict::kAsk);
    length = std::min(2 * length, PolicyPatience::kLongestBan);
  }
  EXPECT_EQ(length, PolicyPatience::kLongestBan);
  for (int i = 0; i < PolicyPatience::kForgivenAfter; ++i) {
    EXPECT_EQ(patience.answered(Nanoseconds(10), now), Nanoseconds{});
  }
  EXPECT_EQ(patience.late(now), PolicyPatience::kFirstBan) << "forgiven";
}

TEST(PolicyPatience, CrashesCountUntilAGoodAnswer) {
  PolicyPatience patience;
  for (int i = 0; i < 2 * PolicyPatience::kMaxCrashes; ++i) {
    EXPECT_EQ(patience.crashed(seconds(1)), Nanoseconds{});
    EXPECT_EQ(patience.answered(milliseconds(1), seconds(1)), Nanoseconds{});
    patience.begin_pass();
  }
  for (int i = 1; i < PolicyPatience::kMaxCrashes; ++i) {
    EXPECT_EQ(patience.crashed(seconds(1)), Nanoseconds{});
  }
  EXPECT_EQ(patience.crashed(seconds(1)), PolicyPatience::kFirstBan);
}

}  // namespace
}  // namespace harmonics::inline in_server
