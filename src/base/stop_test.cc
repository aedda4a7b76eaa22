#include <harmonics/base/stop.h>

#include <gtest/gtest.h>

namespace harmonics::inline in_base {
namespace {

using std::chrono::seconds;

TEST(StopRequest, RingsOnceAndKeepsTheFirstReason) {
  const auto stop = std::make_shared<StopRequest>();
  int rung = 0;
  const StopRequest::Alarm alarm(stop, [&] { ++rung; });
  EXPECT_FALSE(stop->asked());
  EXPECT_EQ(stop->why(), "");
  stop->ask("SIGTERM");
  stop->ask("SIGINT");
  EXPECT_TRUE(stop->asked());
  EXPECT_EQ(stop->why(), "SIGTERM");
  EXPECT_EQ(rung, 1);
}

TEST(StopRequest, AnAlarmThatComesLaterRingsAtOnceAndOneThatIsGoneNever) {
  const auto stop = std::make_shared<StopRequest>();
  int early = 0;
  int late = 0;
  {
    const StopRequest::Alarm alarm(stop, [&] { ++early; });
  }
  stop->ask("SIGTERM");
  const StopRequest::Alarm alarm(stop, [&] { ++late; });
  EXPECT_EQ(early, 0);
  EXPECT_EQ(late, 1);
}

TEST(StopRequest, WaitsEndAtOnceUntilThereIsWorkToFinish) {
  StopRequest stop;
  const StopRequest::Instant from = std::chrono::steady_clock::now();
  EXPECT_EQ(stop.limit(from, true), from);
  EXPECT_EQ(stop.limit(from, false), from);
  stop.set_patience({seconds(60), seconds(5)});
  EXPECT_EQ(stop.limit(from, true), from + seconds(60));
  EXPECT_EQ(stop.limit(from, false), from + seconds(5));
}

}  // namespace
}  // namespace harmonics::inline in_base
