#include <harmonics/base/number_text.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace harmonics::inline in_base {
namespace {

TEST(NumberFrom, IsWhatAllOfTheTextSpells) {
  EXPECT_EQ(number_from<int>("0"), 0);
  EXPECT_EQ(number_from<int>("-17"), -17);
  EXPECT_EQ(number_from<std::uint16_t>("0080"), 80);
  EXPECT_EQ(number_from<double>("2.5e-3"), 2.5e-3);
  EXPECT_EQ(number_from<double>("-.5"), -0.5);
}

TEST(NumberFrom, IsNothingWhereTheTextIsMoreOrLessThanANumber) {
  for (const char* text : {"", " ", "-", "+1", " 1", "1 ", "1\n", "1x", "x1", "0x10", "1,000"}) {
    EXPECT_FALSE(number_from<std::int64_t>(text)) << "'" << text << "'";
    EXPECT_FALSE(number_from<double>(text)) << "'" << text << "'";
  }
  EXPECT_FALSE(number_from<int>("1.5"));
  EXPECT_FALSE(number_from<int>({}));
  EXPECT_FALSE(number_from<int>(std::string_view("1\0", 2)));
}

TEST(NumberFrom, GoesToTheLimitsOfItsType) {
  EXPECT_EQ(number_from<std::uint16_t>("65535"), 65535);
  EXPECT_FALSE(number_from<std::uint16_t>("65536"));
  EXPECT_FALSE(number_from<std::uint16_t>("-1")) << "no sign where the type has none";
  EXPECT_EQ(number_from<std::int64_t>("-9223372036854775808"),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_FALSE(number_from<std::int64_t>("9223372036854775808"));
  EXPECT_FALSE(number_from<double>("1e999"));
  EXPECT_FALSE(number_from<double>("1e-999"));
}

TEST(NumberFrom, LeavesItToItsCallerWhetherARealNumberIsFinite) {
  const auto endless = number_from<double>("inf");
  ASSERT_TRUE(endless);
  EXPECT_TRUE(std::isinf(*endless));
  const auto none = number_from<double>("nan");
  ASSERT_TRUE(none);
  EXPECT_TRUE(std::isnan(*none));
}

TEST(LeadingNumber, IsWhatTheTextBeginsWith) {
  EXPECT_EQ(leading_number<int>("42 (name) S 1"), 42);
  EXPECT_EQ(leading_number<std::uint64_t>("7\n"), 7);
  EXPECT_EQ(leading_number<int>("-1"), -1);
  EXPECT_EQ(leading_number<double>("0.5s"), 0.5);
}

TEST(LeadingNumber, IsNothingWhereTheTextBeginsOtherwise) {
  for (const char* text : {"", "max", " 1", "+1", "(1)"}) {
    EXPECT_FALSE(leading_number<int>(text)) << "'" << text << "'";
  }
  EXPECT_FALSE(leading_number<std::uint8_t>("256 kB")) << "more than it holds";
}

}  // namespace
}  // namespace harmonics::inline in_base
