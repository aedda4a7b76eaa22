#include <harmonics/base/check.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/environment.h>

#include "check_testing.h"

namespace harmonics::inline in_base {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Check, WhatHoldsCostsOneLookAndNoText) {
  int looks = 0;
  int texts = 0;
  const auto text = [&] { return ++texts; };
  HARMONICS_CHECK(++looks > 0, "text {}", text());
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(texts, 0);
}

TEST(Check, ABrokenOneSaysWhatWhereAndWhatToDo) {
  const BugsThrow throwing;
  const int tasks = 3;
  const std::string error = error_of([&] { HARMONICS_CHECK(tasks < 2, "{} tasks", tasks); });
  EXPECT_THAT(error, StartsWith("internal: 3 tasks (base/check_test.cc:"));
  EXPECT_THAT(error, HasSubstr("expects: tasks < 2"));
  EXPECT_THAT(error, HasSubstr("please report"));
}

// Whoever swallows the error does not swallow the line.
TEST(Check, ABrokenOneIsWrittenToTheLogBeforeAnybodyCanCatchIt) {
  const bool before = set_abort_on_bugs(false);
  const LogCapture captured;
  try {
    HARMONICS_CHECK(false, "two ends of one rope");
  } catch (const Error&) {
  }
  set_abort_on_bugs(before);
  ASSERT_EQ(captured.lines().size(), 1U);
  EXPECT_THAT(captured.lines()[0], StartsWith("error base: two ends of one rope"));
}

TEST(Check, IsOneExpression) {
  const auto half = [](int number) {
    return HARMONICS_CHECK(number % 2 == 0, "{} is odd", number), number / 2;
  };
  EXPECT_EQ(half(4), 2);
  expect_broken_check("5 is odd", [&] { (void)half(5); });
}

TEST(CheckDeathTest, WhereItIsAskedForABrokenOneEndsTheProcess) {
  EXPECT_DEATH(
      {
        set_abort_on_bugs(true);
        HARMONICS_CHECK(1 > 2, "the world stands on its head");
      },
      "stands on its head");
}

TEST(Check, TheTestsOfThisTreeAskForIt) {
  if (!environment_value("HARMONICS_BINARY_DIR")) GTEST_SKIP() << "run by ctest";
  EXPECT_TRUE(set_abort_on_bugs(true));
}

TEST(Check, TheGuardGivesBackWhatHeldBefore) {
  const bool before = set_abort_on_bugs(true);
  expect_broken_check("once", [] { HARMONICS_CHECK(false, "once"); });
  EXPECT_TRUE(set_abort_on_bugs(before));
}

}  // namespace
}  // namespace harmonics::inline in_base
