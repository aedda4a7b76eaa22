#include "rate_limits.h"

#include <gtest/gtest.h>

namespace harmonics::inline in_server {
namespace {

using std::chrono::milliseconds;

int admitted(RateLimits& limits, const std::string& user, Nanoseconds now, int tries) {
  int count = 0;
  for (int i = 0; i < tries; ++i) count += limits.admit(user, now) ? 1 : 0;
  return count;
}

TEST(RateLimits, LetASecondsWorthThroughAtOnceAndThenAsManyAsTimeBrings) {
  RateLimits limits(100);
  const Nanoseconds start = std::chrono::hours(5);
  EXPECT_EQ(admitted(limits, "ann", start, 500), 100);
  EXPECT_EQ(admitted(limits, "ann", start + milliseconds(50), 500), 5);
  EXPECT_EQ(admitted(limits, "ann", start + milliseconds(50), 500), 0);
  EXPECT_EQ(admitted(limits, "ann", start + std::chrono::hours(1), 500), 100) << "no hoard";
}

TEST(RateLimits, UsersDoNotTakeFromEachOther) {
  RateLimits limits(10);
  EXPECT_EQ(admitted(limits, "ann", milliseconds(1), 50), 10);
  EXPECT_EQ(admitted(limits, "bob", milliseconds(1), 50), 10);
}

TEST(RateLimits, AClockReadByAnotherThreadMayBeAMomentOld) {
  RateLimits limits(10);
  EXPECT_EQ(admitted(limits, "ann", milliseconds(900), 50), 10);
  EXPECT_EQ(admitted(limits, "ann", milliseconds(100), 50), 0);
  EXPECT_EQ(admitted(limits, "ann", milliseconds(1000), 50), 1) << "time counts once";
}

}  // namespace
}  // namespace harmonics::inline in_server
