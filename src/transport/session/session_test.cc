#include "session.h"

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include "check_testing.h"

namespace harmonics::inline in_transport {
namespace {

constexpr Window kWide{1000, 8};

template <typename Work>
ErrorCode code_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kUnknown;
}

// Two sessions on a connection that is up.
struct Ends {
  explicit Ends(Window window = kWide) : a(window), b(window) { connection(); }
  void connection() {
    const Progress of_a = a.progress();
    const Progress of_b = b.progress();
    a.resume(of_b, b.granted(), of_a);
    b.resume(of_a, a.granted(), of_b);
  }
  void cut() {
    a.cut();
    b.cut();
  }
  // Everything that a has to write arrives at b.
  void carry(std::uint64_t bytes) {
    while (const auto sequence = a.next_to_write()) {
      a.written(*sequence);
      (void)b.arrive(*sequence, bytes);
    }
  }
  void report() {
    a.peer_progress(b.progress());
    b.told_progress();
  }
  Session a;
  Session b;
};

TEST(Session, NothingMayBePushedBeforeTheFirstLink) {
  Session session(kWide);
  EXPECT_FALSE(session.may_push(0));
  EXPECT_FALSE(session.next_to_write());
  session.resume({}, kWide, {});
  EXPECT_TRUE(session.may_push(1));
}

TEST(Session, NumbersFromOneAndWritesInOrder) {
  Ends ends;
  EXPECT_EQ(ends.a.push(10), 1u);
  EXPECT_EQ(ends.a.push(10), 2u);
  EXPECT_EQ(ends.a.next_to_write(), 1u);
  ends.a.written(1);
  EXPECT_EQ(ends.a.next_to_write(), 2u);
  expect_broken_check("out of turn", [&] { ends.a.written(3); });
}

TEST(Session, MessageCreditsReachTheirCeiling) {
  Ends ends;
  for (std::uint32_t i = 0; i < kWide.messages; ++i) {
    ASSERT_TRUE(ends.a.may_push(1));
    (void)ends.a.push(1);
  }
  EXPECT_FALSE(ends.a.may_push(0));
  expect_broken_check("without credit", [&] { (void)ends.a.push(0); });
  ends.carry(1);
  ends.report();
  EXPECT_FALSE(ends.a.may_push(0)) << "delivered is not consumed";
  ends.b.consume();
  ends.report();
  EXPECT_TRUE(ends.a.may_push(1));
}

TEST(Session, ByteCreditsReachTheirCeilingAndALargerMessageTravelsAlone) {
  Ends ends;
  (void)ends.a.push(600);
  EXPECT_TRUE(ends.a.may_push(400));
  EXPECT_FALSE(ends.a.may_push(401));
  EXPECT_FALSE(ends.a.may_push(5000));
  ends.carry(600);
  ends.b.consume();
  ends.report();
  EXPECT_TRUE(ends.a.may_push(5000));
  (void)ends.a.push(5000);
  EXPECT_FALSE(ends.a.may_push(0));
  EXPECT_EQ(ends.a.in_flight_bytes(), 5000u);
}

TEST(Session, ProgressIsOwedAfterAQuarterOfTheWindow) {
  Ends ends;
  for (int i = 0; i < 4; ++i) (void)ends.a.push(1);
  ends.carry(1);
  EXPECT_FALSE(ends.b.owes_progress());
  ends.b.consume();
  EXPECT_FALSE(ends.b.owes_progress());
  ends.b.consume();
  EXPECT_TRUE(ends.b.owes_progress());
  ends.report();
  EXPECT_FALSE(ends.b.owes_progress());
}

TEST(Session, ProgressIsOwedAfterAQuarterOfTheBytes) {
  Ends ends;
  (void)ends.a.push(250);
  ends.carry(250);
  ends.b.consume();
  EXPECT_TRUE(ends.b.owes_progress());
}

TEST(Session, ALargeMessageBehindSmallOnesAsks) {
  Ends ends;
  (void)ends.a.push(1);
  EXPECT_FALSE(ends.a.must_ask(999)) << "there is room";
  EXPECT_TRUE(ends.a.must_ask(1000));
  ends.a.asked();
  EXPECT_FALSE(ends.a.must_ask(1000)) << "once is enough";
  ends.carry(1);
  ends.b.peer_asks();
  EXPECT_FALSE(ends.b.owes_progress()) << "nothing was consumed yet";
  ends.b.told_progress();
  ends.b.consume();
  EXPECT_TRUE(ends.b.owes_progress());
  ends.report();
  EXPECT_TRUE(ends.a.may_push(1000));
}

TEST(Session, AFullWindowNeedNotAsk) {
  Ends ends;
  (void)ends.a.push(250);
  EXPECT_FALSE(ends.a.must_ask(1000)) << "a quarter is in flight: it will be reported unasked";
}

TEST(Session, RepeatsAreToldFromGapsAndBreaches) {
  Ends ends({100, 2});
  EXPECT_EQ(ends.b.arrive(1, 60), Session::Arrival::kNew);
  EXPECT_EQ(ends.b.arrive(1, 60), Session::Arrival::kRepeated);
  EXPECT_EQ(code_of([&] { (void)ends.b.arrive(3, 1); }), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of([&] { (void)ends.b.arrive(2, 41); }), ErrorCode::kDataLoss);
  EXPECT_EQ(ends.b.arrive(2, 40), Session::Arrival::kNew);
  EXPECT_EQ(code_of([&] { (void)ends.b.arrive(3, 0); }), ErrorCode::kDataLoss);
  EXPECT_EQ(ends.b.backlog_bytes(), 100u);
}

TEST(Session, ResumeGoesOnAfterWhatArrived) {
  Ends ends;
  for (int i = 0; i < 3; ++i) (void)ends.a.push(1);
  ends.a.written(1);
  ends.a.written(2);
  (void)ends.b.arrive(1, 1);
  ends.cut();
  EXPECT_FALSE(ends.a.next_to_write());
  EXPECT_TRUE(ends.a.may_push(1)) << "a cut link does not stop the sender below its credits";
  ends.connection();
  EXPECT_EQ(ends.a.next_to_write(), 2u);
  EXPECT_EQ(ends.a.peer_delivered(), 1u);
}

TEST(Session, ProgressToldOnALinkThatWasCutIsToldAgain) {
  Ends ends;
  for (int i = 0; i < 2; ++i) (void)ends.a.push(1);
  ends.carry(1);
  const Progress greeted = ends.b.progress();
  ends.b.consume();
  ends.b.consume();
  ends.b.told_progress();  // into a connection that is dead already
  ends.cut();
  ends.a.resume(greeted, kWide, {});
  ends.b.resume({}, kWide, greeted);
  EXPECT_TRUE(ends.b.owes_progress());
}

TEST(Session, ResumeRefusesAPeerThatIsNotWhoItWas) {
  Ends ends;
  (void)ends.a.push(1);
  ends.carry(1);
  ends.report();
  ends.cut();
  EXPECT_EQ(code_of([&] { ends.a.resume({0, 0}, kWide, {}); }), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of([&] { ends.a.resume({2, 0}, kWide, {}); }), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of([&] { ends.a.resume({1, 2}, kWide, {}); }), ErrorCode::kDataLoss);
  ends.a.resume({1, 1}, kWide, {});
}

TEST(Session, ProgressBeyondWhatWasWrittenIsRefused) {
  Ends ends;
  (void)ends.a.push(1);
  EXPECT_EQ(code_of([&] { ends.a.peer_progress({1, 0}); }), ErrorCode::kDataLoss);
  ends.a.written(1);
  ends.a.peer_progress({1, 1});
  ends.a.peer_progress({0, 0});
  EXPECT_EQ(ends.a.peer_delivered(), 1u) << "old news changes nothing";
}

TEST(Session, TheEndTakesANumberButNoCredit) {
  Ends ends({10, 1});
  (void)ends.a.push(10);
  EXPECT_EQ(ends.a.push_end(), 2u);
  EXPECT_EQ(ends.a.push_end(), 2u);
  EXPECT_FALSE(ends.a.may_push(0));
  ends.a.written(1);
  ends.a.written(2);
  (void)ends.b.arrive(1, 10);
  EXPECT_FALSE(ends.b.peer_ended());
  EXPECT_EQ(ends.b.arrive_end(2), Session::Arrival::kNew);
  EXPECT_EQ(ends.b.arrive_end(2), Session::Arrival::kRepeated);
  EXPECT_TRUE(ends.b.peer_ended());
  EXPECT_TRUE(ends.b.owes_progress());
  ends.b.consume();
  EXPECT_EQ(ends.b.progress(), (Progress{2, 2}));
  ends.report();
  EXPECT_EQ(ends.a.in_flight_messages(), 0u);
  EXPECT_EQ(code_of([&] { (void)ends.b.arrive(3, 0); }), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of([&] { (void)ends.b.arrive_end(3); }), ErrorCode::kDataLoss);
}

TEST(Session, AnEndMayLeaveOnceTheOtherHasEverything) {
  Ends ends;
  EXPECT_EQ(code_of([&] { ends.b.peer_leaves(); }), ErrorCode::kDataLoss) << "before its end";
  EXPECT_FALSE(ends.a.may_leave());
  (void)ends.a.push_end();
  ends.a.written(1);
  EXPECT_FALSE(ends.a.may_leave());
  (void)ends.b.arrive_end(1);
  EXPECT_FALSE(ends.b.peer_left()) << "it may wait for our progress";
  ends.report();
  EXPECT_TRUE(ends.a.may_leave());
  ends.b.peer_leaves();
  EXPECT_TRUE(ends.b.peer_left());
}

TEST(Session, ConsumingWhatNeverArrivedIsABug) {
  Session session(kWide);
  expect_broken_check("never arrived", [&] { session.consume(); });
}

}  // namespace
}  // namespace harmonics::inline in_transport
