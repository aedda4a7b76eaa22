// What scenarios do not show: ceilings, broken policies, deadlines.
#include <harmonics/cluster/reactor.h>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include "reservation.h"
#include "scheduler.h"

namespace harmonics::inline in_cluster {
namespace {

class Server {
 public:
  explicit Server(WorkloadPolicy& policy, ServerOptions options = {})
      : reactor_(ClusterState{}, policy, options, now_, out_) {}

  void feed(const ServerEvent& event) { reactor_.handle(event, now_, out_); }
  WorkerId join(const std::string& name, std::size_t gpus) {
    HelloMessage hello;
    hello.spec.name = hello.spec.identity = name;
    for (std::size_t i = 0; i < gpus; ++i)
      hello.spec.devices.push_back({std::to_string(i), "", 8192});
    feed(WorkerHello{RequestId{1}, hello});
    const auto* worker = reactor_.state().find_worker(name);
    return worker == nullptr ? WorkerId{} : worker->id;
  }
  void say(WorkerId worker, WorkerMessage message) {
    feed(WorkerSays{worker, reactor_.session(worker).epoch, std::move(message)});
  }
  void wait(Nanoseconds time) {
    now_ += time;
    tick();
  }
  void submit(std::uint32_t gpus, std::uint32_t array = 0, const std::string& user = "ann") {
    TaskSpec spec;
    spec.name = "t";
    spec.required_gpus = gpus;
    spec.array = array;
    feed(SubmitRequest{RequestId{1}, {user, false}, spec});
  }
  void tick() { reactor_.tick(now_, out_); }
  template <typename Effect>
  [[nodiscard]] std::vector<Effect> effects() const {
    std::vector<Effect> found;
    for (const ServerEffect& effect : out_.effects) {
      if (const auto* one = std::get_if<Effect>(&effect)) found.push_back(*one);
    }
    return found;
  }
  [[nodiscard]] std::size_t starts() const {
    std::size_t count = 0;
    for (const SendToWorker& send : effects<SendToWorker>()) {
      if (std::holds_alternative<StartMessage>(send.message)) ++count;
    }
    return count;
  }
  [[nodiscard]] ServerReactor& reactor() { return reactor_; }
  Outbox& out() { return out_; }
  Time& now() { return now_; }

 private:
  Time now_ = std::chrono::hours(1);
  Outbox out_;
  ServerReactor reactor_;
};

TEST(Reactor, ANewTermIsTheFirstFact) {
  BalancedPolicy policy;
  Server server(policy);
  ASSERT_EQ(server.out().facts.size(), 2U);
  EXPECT_EQ(std::get<TermStarted>(server.out().facts[0]).term, Term{1});
}

TEST(Reactor, StartsSoManyPerTickAndGoesOnAtOnce) {
  BalancedPolicy policy;
  ServerOptions options;
  options.max_starts_per_tick = 3;
  Server server(policy, options);
  server.join("w", 8);
  server.submit(1, 7);
  server.tick();
  EXPECT_EQ(server.starts(), 3U);
  EXPECT_EQ(server.reactor().deadline(), Time{}) << "more to do at once";
  server.tick();
  server.tick();
  EXPECT_EQ(server.starts(), 7U);
  EXPECT_GT(server.reactor().deadline(), server.now());
}

// All wait for the device that is taken. A pass that could not reach the last goes on at once.
TEST(Reactor, APassLooksAtSoManyKindsInVainAndTheNextGoesOn) {
  BalancedPolicy policy;
  Server server(policy);
  server.join("w", 1);
  server.submit(1);
  server.tick();
  constexpr std::uint32_t kKinds = 2000;
  for (std::uint32_t i = 0; i < kKinds; ++i) {
    TaskSpec spec;
    spec.name = "waits";
    spec.min_gpu_memory_mb = 1 + i;
    server.feed(SubmitRequest{RequestId{1}, {"ann", false}, spec});
  }
  server.submit(0);
  server.tick();
  EXPECT_EQ(server.starts(), 1U) << "too many kinds before it for one pass";
  EXPECT_EQ(server.reactor().deadline(), Time{}) << "more to do at once";
  std::uint32_t passes = 1;
  for (; server.reactor().deadline() == Time{} && passes < kKinds; ++passes) server.tick();
  EXPECT_EQ(server.starts(), 2U);
  EXPECT_LE(passes, 2 + kKinds * (1 + kSweepSteps.ask) / kSweepSteps.most) << "each lane once";
}

// What a worker has not launched yet could as well be started elsewhere.
TEST(Reactor, AWorkerIsGivenSoManyToStartAndWhoJoinsGetsTheRest) {
  BalancedPolicy policy;
  Server server(policy);
  const WorkerId first = server.join("first", 0);
  constexpr std::uint32_t kTasks = 3 * kMaxStartingTasks;
  server.submit(0, kTasks);
  while (server.reactor().deadline() == Time{}) server.tick();
  const ClusterState& state = server.reactor().state();
  EXPECT_EQ(state.attempts_on(first).size(), kMaxStartingTasks);
  const Epoch epoch = server.reactor().session(first).epoch;
  for (std::uint32_t i = 0; i < 10; ++i) {
    const AttemptId id = state.attempts_on(first)[i];
    server.feed(WorkerSays{first, epoch, LaunchedMessage{id}});
  }
  while (server.reactor().deadline() == Time{}) server.tick();
  EXPECT_EQ(state.attempts_on(first).size(), kMaxStartingTasks + 10U) << "those run, others follow";
  const WorkerId second = server.join("second", 0);
  while (server.reactor().deadline() == Time{}) server.tick();
  EXPECT_EQ(state.attempts_on(second).size(), kMaxStartingTasks);
  server.feed(WorkerSays{first, epoch, EndedMessage{state.attempts_on(first)[0], {}}});
  ClusterState copy;
  state.snapshot([&](const Fact& fact) { copy.apply(fact); });
  EXPECT_TRUE(copy == state) << "also what is being started";
}

TEST(Reactor, WhoSubmitsWhatNobodyCanRunIsToldSo) {
  BalancedPolicy policy;
  Server server(policy);
  const auto advice = [&](std::uint32_t gpus, std::uint32_t cpus = 0, std::uint32_t gang = 1) {
    TaskSpec spec;
    spec.name = "t";
    spec.required_gpus = gpus;
    spec.cpus = cpus;
    spec.gang = gang;
    if (gang == 1 && (gpus > 2 || cpus > 8)) {
      server.feed(SubmitRequest{RequestId{1}, {"ann", false}, spec});
      const auto refusal = std::get<Refusal>(server.effects<Answer>().back().reply);
      EXPECT_EQ(refusal.code, ErrorCode::kFailedPrecondition);
      EXPECT_NE(refusal.message.find("could never run"), std::string::npos) << refusal.message;
    }
    spec.wait_for_machines = gang == 1;
    server.feed(SubmitRequest{RequestId{1}, {"ann", false}, spec});
    return std::get<Submitted>(server.effects<Answer>().back().reply).advice;
  };
  EXPECT_EQ(advice(1), "") << "nobody is known yet";
  server.join("w", 0);
  EXPECT_NE(advice(1).find("No worker has a GPU: with --gpus 0 it would run."), std::string::npos);
  EXPECT_NE(advice(1, 9).find("No worker has a GPU: add workers"), std::string::npos);
  EXPECT_EQ(advice(0), "");
  server.join("g", 2);
  EXPECT_EQ(advice(2), "");
  EXPECT_NE(advice(3).find("2 GPUs, 8192 MB on a GPU"), std::string::npos);
  EXPECT_NE(advice(1, 0, 2).find("only 1 of the known workers could run it"), std::string::npos);
  EXPECT_EQ(server.reactor().why(TaskId{2}, server.now()).reason, WhyPending::Reason::kTurn);
}

TEST(Reactor, ReservationsWeighSoManyWorkers) {
  BalancedPolicy policy;
  Server server(policy);
  for (std::size_t i = 0; i < kMaxReservationCandidates + 10; ++i) {
    server.join("w" + std::to_string(i), 1);
  }
  server.submit(1, kMaxReservationCandidates + 10);
  server.tick();
  EXPECT_EQ(server.starts(), kMaxReservationCandidates + 10);
  server.submit(1);
  server.submit(0);
  server.tick();
  EXPECT_EQ(server.starts(), kMaxReservationCandidates + 11) << "beside the head";
}

TEST(Reactor, WorkersAreBounded) {
  BalancedPolicy policy;
  Server server(policy);
  for (std::size_t i = 0; i < kMaxWorkers; ++i) server.join("w" + std::to_string(i), 0);
  EXPECT_TRUE(server.effects<RefuseSession>().empty());
  server.join("one more", 0);
  ASSERT_EQ(server.effects<RefuseSession>().size(), 1U);
  EXPECT_NE(server.effects<RefuseSession>()[0].reason.find("takes no more"), std::string::npos);
}

class Broken final : public WorkloadPolicy {
 public:
  Assignment assign_task(const WorkerPool&, const TaskSpec&) override {
    switch (calls_++) {
      case 0: throw std::runtime_error("no idea");
      case 1: return {WorkerId{99}, DeviceSet{1}};
      case 2: return {WorkerId{1}, DeviceSet{0xff}};
      default: return {WorkerId{1}, DeviceSet{}};
    }
  }

 private:
  int calls_ = 0;
};

TEST(Reactor, ABrokenPolicyIsReplacedAndNamed) {
  Broken policy;
  Server server(policy);
  server.join("w", 4);
  for (std::size_t i = 1; i <= 4; ++i) {
    server.submit(1);
    server.tick();
    EXPECT_EQ(server.starts(), i);
    EXPECT_EQ(server.effects<Note>().size(), i) << "the log says so each time";
  }
  EXPECT_NE(server.effects<Note>()[0].text.find("no idea"), std::string::npos);
}

TEST(Reactor, RolesAreAsked) {
  BalancedPolicy policy;
  Server server(policy);
  server.join("w", 1);
  server.out().clear();
  server.feed(DrainRequest{RequestId{1}, {"ann", false}, "w", true});
  server.feed(ForgetRequest{RequestId{2}, {"ann", false}, "w"});
  server.feed(QuotaRequest{RequestId{3}, {"ann", false}, "ann", {}});
  server.feed(QuotaRequest{RequestId{4}, {"root", true}, "ann", {.weight = 0}});
  server.feed(SubmitRequest{RequestId{5}, {"", false}, {.name = "x"}});
  EXPECT_TRUE(server.out().facts.empty());
  std::vector<ErrorCode> codes;
  for (const Answer& answer : server.effects<Answer>()) {
    codes.push_back(std::get<Refusal>(answer.reply).code);
  }
  const auto denied = ErrorCode::kPermissionDenied;
  const auto invalid = ErrorCode::kInvalidArgument;
  EXPECT_EQ(codes, (std::vector{denied, denied, denied, invalid, invalid}));
}

TEST(Reactor, DeadlinesAreThoseOfLeasesAndBackoffs) {
  BalancedPolicy policy;
  ServerOptions options;
  Server server(policy, options);
  server.tick();
  EXPECT_EQ(server.reactor().deadline(), kNever);
  const WorkerId worker = server.join("w", 1);
  server.tick();
  EXPECT_EQ(server.reactor().deadline(), server.now() + options.lease + options.drift);
  TaskSpec spec;
  spec.name = "t";
  spec.max_retries = 1;
  server.feed(SubmitRequest{RequestId{1}, {"ann", false}, spec});
  server.tick();
  const Epoch epoch = server.reactor().session(worker).epoch;
  server.feed(
      WorkerSays{worker, epoch, EndedMessage{{TaskId{1}, {1}}, {EndKind::kFailed, 1, 0, ""}}});
  server.tick();
  EXPECT_EQ(server.reactor().deadline(), server.now() + options.backoff);
  EXPECT_THROW((void)server.reactor().why(TaskId{9}, server.now()), Error);
}

TEST(Reactor, OverlongMessagesOfWorkersAreCut) {
  BalancedPolicy policy;
  Server server(policy);
  const WorkerId worker = server.join("w", 1);
  server.submit(1);
  server.tick();
  const Epoch epoch = server.reactor().session(worker).epoch;
  EndResult result{EndKind::kFailed, 1, 0, std::string(2 * kMaxTaskTextBytes, 'x')};
  server.feed(WorkerSays{worker, epoch, EndedMessage{{TaskId{1}, {1}}, result}});
  const TaskRecord* task = server.reactor().state().find_task(TaskId{1});
  EXPECT_EQ(std::get<Ended>(task->state).last->message.size(), kMaxTaskTextBytes);
}

TEST(Reactor, WhereAnEndedTaskRanOutlivesASnapshot) {
  BalancedPolicy policy;
  Server server(policy);
  const WorkerId worker = server.join("w", 1);
  server.submit(1);
  server.tick();
  const Epoch epoch = server.reactor().session(worker).epoch;
  server.feed(WorkerSays{worker, epoch, EndedMessage{{TaskId{1}, {1}}, {}}});
  const ClusterState& state = server.reactor().state();
  EXPECT_EQ(state.find_task(TaskId{1})->places, std::vector<WorkerId>{worker});
  ClusterState copy;
  state.snapshot([&](const Fact& fact) { copy.apply(fact); });
  EXPECT_EQ(copy.find_task(TaskId{1})->places, std::vector<WorkerId>{worker});
  EXPECT_TRUE(copy == state);
}

// One more attempt than is remembered, in turns on two workers.
TEST(Reactor, WhereEarlierAttemptsRanIsRememberedUpToACeiling) {
  BalancedPolicy policy;
  Server server(policy);
  const WorkerId workers[] = {server.join("a", 1), server.join("b", 1)};
  TaskSpec spec;
  spec.name = "t";
  spec.required_gpus = 1;
  spec.max_retries = 100;
  server.feed(SubmitRequest{RequestId{1}, {"ann", false}, spec});
  constexpr std::uint32_t kAttempts = kMaxPastAttempts + 2;
  const auto place = [&](std::uint32_t attempt) { return workers[attempt % 2]; };
  for (std::uint32_t attempt = 1; attempt <= kAttempts; ++attempt) {
    const bool odd = attempt % 2 == 1;
    server.feed(DrainRequest{RequestId{2}, {"ann", true}, "a", odd});
    server.feed(DrainRequest{RequestId{2}, {"ann", true}, "b", !odd});
    server.now() += std::chrono::minutes(10);  // past every back-off
    for (const WorkerId worker : workers) {
      const Epoch epoch = server.reactor().session(worker).epoch;
      server.feed(WorkerSays{worker, epoch, HeartbeatMessage{}});
    }
    server.tick();
    const TaskRecord* task = server.reactor().state().find_task(TaskId{1});
    ASSERT_EQ(task->attempts, AttemptNumber{attempt});
    ASSERT_EQ(task->places, std::vector<WorkerId>{place(attempt)});
    const Epoch epoch = server.reactor().session(place(attempt)).epoch;
    const EndResult failed{EndKind::kFailed, 1, 0, ""};
    server.feed(WorkerSays{place(attempt), epoch, EndedMessage{{TaskId{1}, {attempt}}, failed}});
  }
  const ClusterState& state = server.reactor().state();
  ClusterState copy;
  state.snapshot([&](const Fact& fact) { copy.apply(fact); });
  EXPECT_TRUE(copy == state);
  for (const bool copied : {false, true}) {
    const TaskRecord* task = (copied ? copy : state).find_task(TaskId{1});
    EXPECT_EQ(task->past.size(), kMaxPastAttempts);
    EXPECT_EQ(task->places_of(AttemptNumber{1}), nullptr) << "forgotten";
    EXPECT_EQ(task->places_of(AttemptNumber{kAttempts + 1}), nullptr) << "to come";
    for (std::uint32_t attempt = 2; attempt <= kAttempts; ++attempt) {
      ASSERT_NE(task->places_of({attempt}), nullptr) << attempt;
      EXPECT_EQ(*task->places_of({attempt}), std::vector<WorkerId>{place(attempt)}) << attempt;
    }
  }
  EXPECT_THROW(copy.apply(PastPlacesKept{{TaskId{1}, {2}}, {workers[0]}}), Error);
}

TEST(Reactor, ArtifactsOutsideTheWorkingDirectoryAreRefused) {
  BalancedPolicy policy;
  Server server(policy);
  for (const char* pattern : {"", "/etc/passwd", "../x", "a/../../b", ".."}) {
    server.out().clear();
    TaskSpec spec;
    spec.name = "t";
    spec.artifacts = {pattern};
    server.feed(SubmitRequest{RequestId{1}, {"ann", false}, spec});
    ASSERT_EQ(server.effects<Answer>().size(), 1U);
    EXPECT_TRUE(std::holds_alternative<Refusal>(server.effects<Answer>()[0].reply)) << pattern;
  }
  EXPECT_EQ(server.reactor().state().task_count(), 0U);
}

TEST(Reactor, AWorkerThatIsUnableRestsForAWhileThatDoublesAndHasACeiling) {
  BalancedPolicy policy;
  ServerOptions options;
  options.rest = std::chrono::seconds(1);
  options.max_rest = std::chrono::seconds(5);
  Server server(policy, options);
  const WorkerId worker = server.join("w", 8);
  server.submit(1, 8);
  server.tick();
  ASSERT_EQ(server.starts(), 8U) << "nothing is known against it";
  const EndResult unable{EndKind::kUnable, 0, 0, "no space"};
  for (std::uint64_t task = 1; task <= 8; ++task) {
    server.say(worker, EndedMessage{{TaskId{task}, {1}}, unable});
  }
  std::uint32_t attempt = 1;
  for (const int seconds : {1, 2, 4, 5, 5}) {
    server.out().clear();
    server.tick();
    EXPECT_EQ(server.starts(), 0U) << "it rests";
    server.wait(std::chrono::seconds(seconds) - std::chrono::milliseconds(1));
    EXPECT_EQ(server.starts(), 0U) << seconds;
    EXPECT_LE(server.reactor().deadline(), server.now() + std::chrono::milliseconds(1));
    server.wait(std::chrono::milliseconds(1));
    ASSERT_EQ(server.starts(), 1U) << "one task to try it with, after " << seconds;
    server.say(worker, EndedMessage{{TaskId{1}, {++attempt}}, unable});
    server.say(worker, HeartbeatMessage{1});
  }
  EXPECT_EQ(server.reactor().session(worker).unable.reason, "no space");
  const TaskRecord& task = *server.reactor().state().find_task(TaskId{1});
  EXPECT_TRUE(std::holds_alternative<Pending>(task.state));
  EXPECT_EQ(task.refusals, 6U);
  EXPECT_EQ(task.failures + task.losses, 0U);
  // It recovers: one by one at first, then all.
  server.wait(std::chrono::seconds(5));
  server.out().clear();
  std::size_t tries = 0;
  for (; server.reactor().session(worker).unable.times > 0 && tries < 20; ++tries) {
    const auto active = server.reactor().state().attempts_on(worker);
    ASSERT_EQ(active.size(), tries + 1) << "one at a time";
    for (const AttemptId id : active) server.say(worker, LaunchedMessage{id});
    server.tick();
  }
  EXPECT_EQ(tries, 3U) << "six times unable: three starts in a row";
  EXPECT_EQ(server.reactor().state().attempts_on(worker).size(), 8U);
}

TEST(Reactor, AHelloTriesAWorkerThatWasUnableAtOnceButWithOneTask) {
  BalancedPolicy policy;
  Server server(policy);
  const WorkerId worker = server.join("w", 4);
  server.submit(1, 4);
  server.tick();
  for (std::uint64_t task = 1; task <= 4; ++task) {
    server.say(worker, EndedMessage{{TaskId{task}, {1}}, {EndKind::kUnable, 0, 0, "no space"}});
  }
  server.out().clear();
  server.tick();
  EXPECT_EQ(server.starts(), 0U);
  server.join("w", 4);
  server.tick();
  EXPECT_EQ(server.starts(), 1U);
}

TEST(Reactor, WhatContinuesIsGivenUpWhenTheHoldIsOverAndNotBefore) {
  BalancedPolicy policy;
  ServerOptions options;  // lease 30 s, drift 3 s, so a tenth
  options.hold = std::chrono::seconds(100);
  Server server(policy, options);
  const WorkerId worker = server.join("w", 2);
  server.submit(1);
  server.tick();
  server.say(worker, LaunchedMessage{{TaskId{1}, {1}}});
  const TaskRecord& task = *server.reactor().state().find_task(TaskId{1});
  server.wait(std::chrono::seconds(109));
  EXPECT_TRUE(server.reactor().session(worker).expired);
  EXPECT_TRUE(std::holds_alternative<Active>(task.state)) << "it may still run there";
  EXPECT_NE(server.reactor().why(TaskId{1}, server.now()).text.find("given up in 1 s"),
            std::string::npos)
      << server.reactor().why(TaskId{1}, server.now()).text;
  EXPECT_LE(server.reactor().deadline(), server.now() + std::chrono::seconds(1));
  server.wait(std::chrono::seconds(1));
  EXPECT_TRUE(std::holds_alternative<Pending>(task.state));
  EXPECT_EQ(task.losses, 1U);
}

TEST(Reactor, AMachineThatWasRestartedHasNothingLeftFromBefore) {
  BalancedPolicy policy;
  Server server(policy);
  const auto join = [&](const std::string& name, const std::string& identity) {
    HelloMessage hello;
    hello.spec.name = name;
    hello.spec.identity = identity;
    hello.spec.devices = {{"0", "", 8192}};
    server.out().clear();
    server.feed(WorkerHello{RequestId{1}, hello});
    return server.effects<OpenSession>().size() == 1;
  };
  ASSERT_TRUE(join("w", "folder@boot1"));
  server.submit(1);
  server.tick();
  EXPECT_FALSE(join("w", "folder@boot2")) << "the one before may still be there";
  server.wait(std::chrono::seconds(34));
  const TaskRecord& task = *server.reactor().state().find_task(TaskId{1});
  EXPECT_TRUE(std::holds_alternative<Active>(task.state)) << "the hold";
  EXPECT_FALSE(join("w", "other@boot3")) << "another machine says nothing of this one";
  EXPECT_TRUE(std::holds_alternative<Active>(task.state));
  EXPECT_TRUE(join("w", "folder@boot2"));
  EXPECT_EQ(task.losses, 1U);
  server.tick();
  EXPECT_EQ(server.starts(), 1U) << "again, there";
}

TEST(Reactor, AServerThatIsRestartedWithAShorterHoldWaitsForTheLongerOne) {
  BalancedPolicy policy;
  const auto restarted = [&](const Outbox& stored, Nanoseconds hold, Time now, Outbox& out) {
    ClusterState state;
    for (const Fact& fact : stored.facts) state.apply(fact);
    ServerOptions options;
    options.hold = hold;
    return std::make_unique<ServerReactor>(std::move(state), policy, options, now, out);
  };
  ServerOptions options;
  options.hold = std::chrono::seconds(1000);
  Server first(policy, options);
  first.join("w", 1);
  first.submit(1);
  first.tick();
  Outbox out = first.out();
  Time now = first.now();
  // Twice, so that the promise outlives a server that never met the worker.
  for (const int life : {1, 2}) {
    const Outbox stored = out;
    const auto server = restarted(stored, std::chrono::seconds(60), now, out);
    now += std::chrono::seconds(900);
    server->tick(now, out);
    EXPECT_TRUE(std::holds_alternative<Active>(server->state().find_task(TaskId{1})->state))
        << life;
    EXPECT_EQ(server->state().promised().hold, std::chrono::seconds(1000)) << life;
  }
  const Outbox stored = out;
  const auto server = restarted(stored, std::chrono::seconds(60), now, out);
  now += std::chrono::seconds(1100);
  EXPECT_LE(server->deadline(), now);
  server->tick(now, out);
  EXPECT_EQ(server->state().find_task(TaskId{1})->losses, 1U);
  EXPECT_EQ(server->state().promised().hold, std::chrono::seconds(60)) << "nobody can hold more";
}

}  // namespace
}  // namespace harmonics::inline in_cluster
