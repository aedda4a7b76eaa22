#include "pulse.h"

#include <gtest/gtest.h>

namespace harmonics::inline in_transport {
namespace {

using std::chrono::milliseconds;

constexpr Nanoseconds kBeat = milliseconds(100);
constexpr Nanoseconds kAsk = milliseconds(10);
constexpr Deadline kStart{std::chrono::hours(1)};

// A session with one message on its connection that was not acknowledged.
Session waiting() {
  Session session(Window{1000, 8});
  session.resume({}, Window{1000, 8}, {});
  (void)session.push(1);
  session.written(1);
  return session;
}

TEST(Pulse, BeatsOncePerPeriodAndNotBefore) {
  const Session session(Window{1000, 8});
  Pulse pulse(kBeat, Nanoseconds(0));
  pulse.start(kStart);
  EXPECT_EQ(pulse.next_look(), kStart);
  EXPECT_FALSE(pulse.look(kStart, session, false).beat);
  EXPECT_EQ(pulse.next_look(), kStart + kBeat);
  EXPECT_FALSE(pulse.look(kStart + kBeat - Nanoseconds(1), session, false).beat);
  EXPECT_TRUE(pulse.look(kStart + kBeat, session, false).beat);
  EXPECT_EQ(pulse.next_look(), kStart + 2 * kBeat);
}

TEST(Pulse, AnAcknowledgementThatStaysOutIsAskedForMoreAndMoreAndNotForEver) {
  const Session session = waiting();
  Pulse pulse(std::chrono::hours(1), kAsk);
  pulse.start(kStart);
  std::vector<int> probes;
  for (Deadline now = kStart; now <= kStart + 20 * kAsk; now += kAsk / 2) {
    EXPECT_LE(pulse.next_look(), now);
    if (const int asked = pulse.look(now, session, false).probes; asked > 0)
      probes.push_back(asked);
  }
  EXPECT_EQ(probes, (std::vector<int>{1, 4, 16, 64, 256}));
}

TEST(Pulse, NothingIsMissingWhileTheConnectionHasNotTakenItAllOrWasCut) {
  const Session session = waiting();
  Pulse pulse(std::chrono::hours(1), kAsk);
  pulse.start(kStart);
  EXPECT_EQ(pulse.look(kStart, session, true).probes, 0);
  EXPECT_EQ(pulse.look(kStart + kAsk, session, true).probes, 0);
  pulse.cut();
  EXPECT_EQ(pulse.look(kStart + 2 * kAsk, session, false).probes, 0);
  EXPECT_EQ(pulse.look(kStart + 3 * kAsk, session, false).probes, 1);
}

TEST(Pulse, AnEndThatIsSlowToAnswerIsGivenFourTimesThatLong) {
  Session session = waiting();
  Pulse pulse(std::chrono::hours(1), kAsk);
  pulse.start(kStart);
  (void)pulse.look(kStart, session, false);
  Deadline now = kStart + kAsk;
  ASSERT_EQ(pulse.look(now, session, false).probes, 1);
  (void)session.push(1);
  session.written(2);
  session.peer_progress({1, 1});
  now += 3 * kAsk;  // the answer took that long
  EXPECT_EQ(pulse.look(now, session, false).probes, 0);
  EXPECT_EQ(pulse.look(now + 11 * kAsk, session, false).probes, 0);
  EXPECT_EQ(pulse.look(now + 12 * kAsk, session, false).probes, 1);
}

// As long as a busy machine takes once, a later loss must not cost each time it is asked for.
TEST(Pulse, OneThatTookVeryLongIsGivenNoMoreThanTwentyTimesTheFirstWait) {
  Session session = waiting();
  Pulse pulse(std::chrono::hours(1), kAsk);
  pulse.start(kStart);
  (void)pulse.look(kStart, session, false);
  Deadline now = kStart + kAsk;
  ASSERT_EQ(pulse.look(now, session, false).probes, 1);
  (void)session.push(1);
  session.written(2);
  session.peer_progress({1, 1});
  now += 1000 * kAsk;
  EXPECT_EQ(pulse.look(now, session, false).probes, 0);
  EXPECT_EQ(pulse.look(now + 19 * kAsk, session, false).probes, 0);
  EXPECT_EQ(pulse.look(now + 20 * kAsk, session, false).probes, 1);
}

}  // namespace
}  // namespace harmonics::inline in_transport
