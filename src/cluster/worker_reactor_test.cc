#include <gtest/gtest.h>

#include <harmonics/cluster/worker_reactor.h>

namespace harmonics::inline in_cluster {
namespace {

using std::chrono::seconds;

constexpr Time kStart = seconds(1000);

StartMessage start_of(AttemptId id, OnDisconnect on_disconnect = OnDisconnect::kStop) {
  auto spec = std::make_shared<TaskSpec>();
  spec->name = "t";
  spec->on_disconnect = on_disconnect;
  StartMessage message;
  message.id = id;
  message.spec = spec;
  return message;
}

constexpr AttemptId kFirst{TaskId{1}, AttemptNumber{1}};
constexpr AttemptId kSecond{TaskId{2}, AttemptNumber{1}};

class WorkerTest : public testing::Test {
 protected:
  void feed(const WorkerEvent& event) {
    effects_.clear();
    reactor_.handle(event, now_, effects_);
  }
  void says(ServerMessage message, std::uint64_t epoch = 7) {
    feed(ServerSays{Epoch{epoch}, std::move(message)});
  }
  void welcome(std::uint64_t epoch = 7) {
    feed(Connected{});
    says(WelcomeMessage{WorkerId{3}, "worker-3", seconds(30), seconds(5), seconds(4), seconds(100)},
         epoch);
  }
  template <typename Effect>
  [[nodiscard]] std::vector<Effect> all() const {
    std::vector<Effect> found;
    for (const WorkerEffect& effect : effects_) {
      if (const auto* one = std::get_if<Effect>(&effect)) found.push_back(*one);
    }
    return found;
  }
  template <typename Message>
  [[nodiscard]] std::vector<Message> sent() const {
    std::vector<Message> found;
    for (const SendToServer& send : all<SendToServer>()) {
      if (const auto* one = std::get_if<Message>(&send.message)) found.push_back(*one);
    }
    return found;
  }

  Time now_ = kStart;
  std::vector<WorkerEffect> effects_;
  WorkerReactor reactor_{{.name = "", .identity = "x"}, {}, {}};
};

TEST_F(WorkerTest, TheWelcomedHelloIsTheFirstLease) {
  feed(Connected{});
  EXPECT_EQ(sent<HelloMessage>().size(), 1U);
  now_ += seconds(2);
  says(WelcomeMessage{WorkerId{3}, "worker-3", seconds(30), seconds(5), seconds(4)});
  EXPECT_EQ(reactor_.spec().name, "worker-3");
  EXPECT_EQ(reactor_.lease_end(), kStart + seconds(30)) << "counted from when it was sent";
  ASSERT_EQ(sent<HeartbeatMessage>().size(), 1U);
  EXPECT_EQ(reactor_.deadline(), now_ + seconds(5));
}

TEST_F(WorkerTest, ALeaseCountsFromWhenItsHeartbeatWasSent) {
  welcome();
  const std::uint64_t first = sent<HeartbeatMessage>().at(0).number;
  now_ += seconds(5);
  feed(WorkerTick{});
  const std::uint64_t second = sent<HeartbeatMessage>().at(0).number;
  now_ += seconds(3);
  says(LeaseMessage{second});
  EXPECT_EQ(reactor_.lease_end(), kStart + seconds(35));
  ASSERT_EQ(all<ExtendLease>().size(), 1U);
  says(LeaseMessage{first});
  EXPECT_TRUE(effects_.empty()) << "an older answer gives nothing";
  says(LeaseMessage{99});
  EXPECT_EQ(reactor_.lease_end(), kStart + seconds(35)) << "never sent";
}

TEST_F(WorkerTest, LaunchesOnceReportsUntilAcknowledged) {
  welcome();
  says(start_of(kFirst));
  ASSERT_EQ(all<Launch>().size(), 1U);
  EXPECT_EQ(all<Launch>()[0].lease_end, kStart + seconds(30));
  says(start_of(kFirst));
  EXPECT_TRUE(effects_.empty());
  feed(ProcessLaunched{kFirst});
  EXPECT_EQ(sent<LaunchedMessage>().size(), 1U);
  feed(Disconnected{});
  feed(ProcessEnded{kFirst, {EndKind::kFailed, 3, 0, ""}});
  EXPECT_TRUE(effects_.empty()) << "nobody to tell";
  feed(Connected{});
  const HelloMessage hello = sent<HelloMessage>().at(0);
  ASSERT_EQ(hello.attempts.size(), 1U);
  EXPECT_EQ(hello.attempts[0].ended->exit_code, 3);
  says(WelcomeMessage{WorkerId{3}, "worker-3", seconds(30), seconds(5), seconds(4)}, 8);
  says(EndAckMessage{kFirst}, 8);
  EXPECT_EQ(all<DropRecord>().size(), 1U);
  EXPECT_TRUE(reactor_.attempts().empty());
}

TEST_F(WorkerTest, WhatHappensBetweenHelloAndWelcomeIsToldAfterIt) {
  welcome();
  says(start_of(kFirst));
  says(start_of(kSecond));
  feed(Disconnected{});
  feed(Connected{});
  feed(ProcessLaunched{kFirst});
  feed(ProcessEnded{kSecond, {EndKind::kFailed, 1, 0, ""}});
  EXPECT_TRUE(effects_.empty());
  says(WelcomeMessage{WorkerId{3}, "worker-3", seconds(30), seconds(5), seconds(4)}, 8);
  ASSERT_EQ(sent<LaunchedMessage>().size(), 1U);
  EXPECT_EQ(sent<LaunchedMessage>()[0].id, kFirst);
  ASSERT_EQ(sent<EndedMessage>().size(), 1U);
  EXPECT_EQ(sent<EndedMessage>()[0].id, kSecond);
}

TEST_F(WorkerTest, OldSessionsAreFenced) {
  welcome(8);
  says(start_of(kFirst), 7);
  EXPECT_TRUE(effects_.empty());
  says(WelcomeMessage{WorkerId{3}, "x", seconds(90), seconds(5), seconds(4)}, 7);
  EXPECT_TRUE(effects_.empty());
  EXPECT_EQ(reactor_.epoch(), Epoch{8});
  feed(Disconnected{});
  says(start_of(kFirst), 8);
  EXPECT_TRUE(effects_.empty()) << "the session is over";
}

TEST_F(WorkerTest, StopsWhenTheLeaseEndsUnlessToldToContinue) {
  constexpr AttemptId kThird{TaskId{3}, AttemptNumber{1}};
  welcome();
  says(start_of(kFirst));
  says(start_of(kSecond, OnDisconnect::kContinue));
  says(start_of(kThird, OnDisconnect::kForever));
  feed(Disconnected{});
  EXPECT_EQ(reactor_.deadline(), kStart + seconds(26)) << "a grace before the lease ends";
  now_ = kStart + seconds(25);
  feed(WorkerTick{});
  EXPECT_TRUE(effects_.empty());
  now_ = kStart + seconds(27);
  feed(WorkerTick{});
  std::vector<Stop> stops = all<Stop>();
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_EQ(stops[0].id, kFirst);
  EXPECT_EQ(stops[0].as, EndKind::kLeaseLost);
  EXPECT_EQ(stops[0].grace, seconds(3)) << "no later than the end of the lease";
  EXPECT_EQ(reactor_.deadline(), kStart + seconds(96)) << "a grace before the hold ends";
  now_ = kStart + seconds(97);
  feed(WorkerTick{});
  stops = all<Stop>();
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_EQ(stops[0].id, kSecond);
  EXPECT_EQ(stops[0].grace, seconds(3)) << "no later than the end of the hold";
  EXPECT_EQ(reactor_.deadline(), kNever);
}

TEST_F(WorkerTest, AServerThatComesBackInTheHoldFindsWhatContinues) {
  welcome();
  says(start_of(kFirst, OnDisconnect::kContinue));
  feed(ProcessLaunched{kFirst});
  feed(Disconnected{});
  now_ += seconds(90);
  feed(WorkerTick{});
  EXPECT_TRUE(effects_.empty());
  welcome(1ULL << 32);
  EXPECT_EQ(sent<HelloMessage>().size(), 0U);
  EXPECT_EQ(reactor_.hold_end(), now_ + seconds(100)) << "a new hold";
  ASSERT_EQ(reactor_.attempts().size(), 1U);
  EXPECT_FALSE(reactor_.attempts()[0].ended);
}

TEST_F(WorkerTest, TheNewestWelcomeSaysHowLongAlsoWhenThatIsShorter) {
  welcome();
  feed(Disconnected{});
  feed(Connected{});
  now_ += seconds(1);
  says(WelcomeMessage{WorkerId{3}, "worker-3", seconds(10), seconds(2), seconds(1), seconds(20)},
       8);
  EXPECT_EQ(reactor_.lease_end(), kStart + seconds(10));
  EXPECT_EQ(reactor_.hold_end(), kStart + seconds(20)) << "the server waits no longer than that";
}

TEST_F(WorkerTest, ASilentServerIsLeftAlsoByTasksThatContinue) {
  welcome();
  says(start_of(kFirst, OnDisconnect::kContinue));
  now_ += seconds(26);
  feed(WorkerTick{});
  EXPECT_EQ(all<Reconnect>().size(), 1U);
  EXPECT_TRUE(all<Stop>().empty());
  feed(WorkerTick{});
  EXPECT_TRUE(all<Reconnect>().empty()) << "once";
}

TEST_F(WorkerTest, StartsNothingUnderALeaseThatEnds) {
  welcome();
  now_ += seconds(26);
  says(start_of(kFirst));
  EXPECT_TRUE(all<Launch>().empty());
  EXPECT_TRUE(reactor_.attempts().empty());
  EXPECT_EQ(all<Reconnect>().size(), 1U) << "so that the server sends it again";
}

TEST_F(WorkerTest, ASilentServerIsLeftWhenTheLeaseEnds) {
  welcome();
  says(start_of(kFirst));
  now_ += seconds(26);
  feed(WorkerTick{});
  EXPECT_EQ(all<Reconnect>().size(), 1U);
}

TEST_F(WorkerTest, StopsWhatTheServerSays) {
  welcome();
  says(start_of(kFirst));
  says(StopMessage{kFirst, StopReason::kCancelled});
  ASSERT_EQ(all<Stop>().size(), 1U);
  EXPECT_EQ(all<Stop>()[0].grace, seconds(4));
  says(StopMessage{kSecond, StopReason::kCancelled});
  EXPECT_TRUE(effects_.empty());
  says(EndAckMessage{kFirst});
  EXPECT_TRUE(effects_.empty()) << "it has not ended";
  feed(ProcessEnded{kFirst, {EndKind::kStopped, 0, 15, ""}});
  EXPECT_EQ(sent<EndedMessage>().at(0).result.kind, EndKind::kStopped);
  feed(ProcessEnded{kFirst, {EndKind::kLost, 0, 0, ""}});
  EXPECT_TRUE(effects_.empty()) << "an attempt ends once";
}

TEST_F(WorkerTest, ReattachesWithWhatItsRecordsSay) {
  WorkerReactor again({.name = "w", .identity = "x"},
                      {{{kFirst, true, std::nullopt}, OnDisconnect::kStop},
                       {{kSecond, true, EndResult{}}, OnDisconnect::kStop}},
                      {kStart + seconds(10), kStart + seconds(80)});
  EXPECT_EQ(again.deadline(), kStart + seconds(5)) << "the old lease counts on";
  again.handle(Connected{}, now_, effects_);
  EXPECT_EQ(sent<HelloMessage>().at(0).attempts.size(), 2U);
}

TEST_F(WorkerTest, ARefusedWorkerGivesUp) {
  feed(Connected{});
  says(RefusedMessage{"taken"}, 0);
  ASSERT_EQ(all<GiveUp>().size(), 1U);
  EXPECT_EQ(all<GiveUp>()[0].reason, "taken");
}

TEST_F(WorkerTest, UnansweredHeartbeatsAreBounded) {
  welcome();
  const std::uint64_t first = sent<HeartbeatMessage>().at(0).number;
  for (std::size_t i = 0; i < kMaxUnansweredBeats; ++i) {
    now_ += seconds(5);
    feed(WorkerTick{});
  }
  const Time before = reactor_.lease_end();
  says(LeaseMessage{first});
  EXPECT_EQ(reactor_.lease_end(), before) << "forgotten";
  says(LeaseMessage{first + 1});
  EXPECT_EQ(reactor_.lease_end(), kStart + seconds(35)) << "the oldest that is remembered";
}

}  // namespace
}  // namespace harmonics::inline in_cluster
