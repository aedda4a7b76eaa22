#include <harmonics/base/slowdown.h>

#include <gtest/gtest.h>

#include <cstdlib>

#include "error_testing.h"

namespace harmonics::inline in_base {
namespace {

TEST(Slowdown, IsAFactorOrAnError) {
  ::unsetenv(kSlowdownVariable);
  EXPECT_EQ(slowdown_from_environment(), 1);
  ::setenv(kSlowdownVariable, "2.5", 1);
  EXPECT_EQ(slowdown_from_environment(), 2.5);
  for (const char* const wrong : {"0.5", "1001", "fast", "nan", "2x"}) {
    ::setenv(kSlowdownVariable, wrong, 1);
    expect_error(ErrorCode::kInvalidArgument, "is no factor from 1 to 1000",
                 [] { (void)slowdown_from_environment(); });
  }
  ::unsetenv(kSlowdownVariable);
}

TEST(Slowdown, WhatWasWaitedForACoreIsPartOfTheSlowMachinesTime) {
  using std::chrono::milliseconds;
  EXPECT_EQ(slowed_pause(milliseconds(10), milliseconds(0), 4), milliseconds(30));
  EXPECT_EQ(slowed_pause(milliseconds(10), milliseconds(2), 4), milliseconds(22));  // 8 x 4 in all
  EXPECT_EQ(slowed_pause(milliseconds(10), milliseconds(9), 2), milliseconds(0));
  EXPECT_EQ(slowed_pause(milliseconds(10), milliseconds(0), 1), milliseconds(0));
  // Clocks of two kinds may disagree by a little.
  EXPECT_EQ(slowed_pause(milliseconds(10), milliseconds(11), 4), milliseconds(0));
}

}  // namespace
}  // namespace harmonics::inline in_base
