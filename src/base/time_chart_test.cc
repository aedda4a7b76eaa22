#include <harmonics/base/time_chart.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harmonics::inline in_base {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TimeChart, TicksStandAtRoundTimesFromZero) {
  const std::string svg = TimeChart(100, 117, 1).svg();
  for (const char* tick : {">0 us<", ">5 s<", ">10 s<", ">15 s<"}) {
    EXPECT_THAT(svg, HasSubstr(tick));
  }
  EXPECT_THAT(svg, Not(HasSubstr(">20 s<")));
}

TEST(TimeChart, ABoxCoversItsShareOfTheWidth) {
  TimeChart chart(10, 20, 2);
  EXPECT_DOUBLE_EQ(chart.share(2.5), 25);
  EXPECT_DOUBLE_EQ(chart.pixels(10), 900);
  chart.box(1, 15, 20, "#123456", "second half");
  EXPECT_THAT(
      chart.svg(),
      HasSubstr("<rect x=\"680.00\" y=\"64\" width=\"449.60\" height=\"20\" fill=\"#123456\">"
                "<title>second half</title>"));
}

TEST(TimeChart, TextIsEscapedAndTheLegendStandsBelow) {
  TimeChart chart(0, 1, 1);
  chart.label(0, "a<b", "1 & 2");
  chart.box(0, 0, 1, "red", "x>y");
  const std::string svg = chart.svg("dark: \"busy\"");
  for (const char* text : {"a&lt;b", "1 &amp; 2", "x&gt;y", "dark: &quot;busy&quot;"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST(TimeChart, NoTimeAtAllIsStillAPicture) {
  const TimeChart chart(3, 3, 0);
  EXPECT_EQ(chart.svg().find("<svg"), 0u);
  EXPECT_EQ(chart.share(0), 0);
}

TEST(TimeChart, TimesAreShort) {
  EXPECT_EQ(short_time(1.23456), "1.235 s");
  EXPECT_EQ(short_time(0.02), "20 ms");
  EXPECT_EQ(short_time(3.2e-6), "3.2 us");
}

}  // namespace
}  // namespace harmonics::inline in_base
