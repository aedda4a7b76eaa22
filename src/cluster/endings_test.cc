// How a server ends what is large or late: an array in pieces, a back-off that a wrong clock set.
#include <gtest/gtest.h>

#include <harmonics/cluster/policy.h>
#include <harmonics/cluster/reactor.h>

#include "requests.h"

namespace harmonics::inline in_cluster {
namespace {

constexpr Time kStart = std::chrono::hours(1);
constexpr Caller kAnn{"ann", false};

HelloMessage hello_of(const std::string& name) {
  HelloMessage hello;
  hello.spec.name = hello.spec.identity = name;
  hello.spec.devices = {{"0", "", 8192}, {"1", "", 8192}};
  return hello;
}

SubmitRequest submit(std::uint32_t gpus, std::uint32_t array, std::uint32_t retries = 0) {
  SubmitRequest request{RequestId{1}, kAnn, {}};
  request.spec.name = "t";
  request.spec.required_gpus = gpus;
  request.spec.array = array;
  request.spec.max_retries = retries;
  return request;
}

std::size_t answers_to(const Outbox& out, RequestId request) {
  return static_cast<std::size_t>(std::ranges::count_if(out.effects, [&](const auto& effect) {
    const auto* answer = std::get_if<Answer>(&effect);
    return answer != nullptr && answer->request == request;
  }));
}

TEST(Cancel, AnArrayGoesInBoundedPiecesAndIsAnsweredAtTheEnd) {
  BalancedPolicy policy;
  Outbox out;
  ServerReactor reactor(ClusterState{}, policy, {}, kStart, out);
  constexpr std::uint32_t kTasks = 3 * kMaxCancelsPerStep + 7;
  reactor.handle(submit(1, kTasks), kStart, out);
  reactor.handle(submit(1, 0), kStart, out);
  const TaskId after{kTasks + 1};
  out.clear();
  reactor.handle(WorkerHello{RequestId{2}, hello_of("w")}, kStart, out);
  reactor.handle(CancelRequest{RequestId{5}, kAnn, TaskId{1}}, kStart, out);
  std::size_t steps = 0;
  std::size_t answered = answers_to(out, RequestId{5});
  while (answered == 0) {
    ASSERT_LT(++steps, 100U);
    ASSERT_EQ(reactor.deadline(), Time{}) << "it goes on at once";
    out.clear();
    reactor.tick(kStart, out);
    EXPECT_LE(out.facts.size(), kMaxCancelsPerStep + 1);
    answered = answers_to(out, RequestId{5});
  }
  EXPECT_EQ(answered, 1U);
  EXPECT_EQ(steps, 4U);
  const auto& counts = reactor.state().counts();
  EXPECT_EQ(counts[TaskState(Ended{}).index()], kTasks) << "none of them started on the way";
  EXPECT_TRUE(std::holds_alternative<Active>(reactor.state().find_task(after)->state));
}

/// An array of that size that waits for task 1, and another that waits for task 2.
void submit_waiting(ServerReactor& reactor, std::uint32_t tasks, Outbox& out) {
  SubmitRequest request = submit(1, tasks);
  request.spec.depends_on = {TaskId{1}};
  reactor.handle(request, kStart, out);
  request.spec.depends_on = {TaskId{2}};
  reactor.handle(request, kStart, out);
}

std::uint64_t count_ended(const ServerReactor& reactor) {
  return reactor.state().counts()[TaskState(Ended{}).index()];
}

TEST(Dependencies, AnArrayThatWaitsForAFailureEndsInBoundedPieces) {
  BalancedPolicy policy;
  Outbox out;
  ServerReactor reactor(ClusterState{}, policy, {}, kStart, out);
  constexpr std::uint32_t kTasks = 2 * kMaxDoomedPerStep + 7;
  reactor.handle(submit(1, 0), kStart, out);
  submit_waiting(reactor, kTasks, out);
  reactor.tick(kStart, out);
  out.clear();
  reactor.handle(CancelRequest{RequestId{5}, kAnn, TaskId{1}}, kStart, out);
  EXPECT_EQ(out.facts.size(), 1U);
  EXPECT_NE(reactor.why(TaskId{kTasks}, kStart).text.find("task 1 did not succeed"),
            std::string::npos);
  std::size_t steps = 0;
  while (count_ended(reactor) < 2 * kTasks + 1) {
    ASSERT_LT(++steps, 100U);
    ASSERT_EQ(reactor.deadline(), Time{}) << "it goes on at once";
    out.clear();
    reactor.tick(kStart, out);
    EXPECT_LE(out.facts.size(), kMaxDoomedPerStep);
  }
  EXPECT_EQ(steps, 5U);
  reactor.tick(kStart, out);
  EXPECT_EQ(reactor.deadline(), kNever) << "nothing is left to do";
}

TEST(Dependencies, ARestartGoesOnEndingWhatCanNeverStart) {
  constexpr std::uint32_t kTasks = kMaxDoomedPerStep + 7;
  BalancedPolicy policy;
  Outbox out;
  ServerReactor before(ClusterState{}, policy, {}, kStart, out);
  before.handle(submit(1, 0), kStart, out);
  submit_waiting(before, kTasks, out);
  before.handle(CancelRequest{RequestId{5}, kAnn, TaskId{1}}, kStart, out);
  before.tick(kStart, out);
  ClusterState replayed;
  for (const Fact& fact : out.facts) replayed.apply(fact);
  ClusterState kept;
  before.state().snapshot([&](const Fact& fact) { kept.apply(fact); });
  for (ClusterState* state : {&replayed, &kept}) {
    ServerReactor after(std::move(*state), policy, {}, kStart, out);
    ASSERT_LT(count_ended(after), 2 * kTasks + 1) << "the first life ended before it was done";
    for (int steps = 0; steps < 10; ++steps) after.tick(kStart, out);
    EXPECT_EQ(count_ended(after), 2 * kTasks + 1);
  }
}

/// Runs task 1 on a worker of its own to its success.
void succeed_first(ServerReactor& reactor, Outbox& out) {
  reactor.handle(WorkerHello{RequestId{2}, hello_of("w")}, kStart, out);
  reactor.tick(kStart, out);
  const WorkerId worker = reactor.state().find_worker("w")->id;
  out.clear();
  reactor.handle(WorkerSays{worker, reactor.session(worker).epoch,
                            EndedMessage{{TaskId{1}, AttemptNumber{1}}, {}}},
                 kStart, out);
}

std::uint64_t count_waiting(const ServerReactor& reactor) {
  return reactor.state().counts()[TaskState(Waiting{}).index()];
}

TEST(Dependencies, AnArrayThatWaitsForASuccessIsFreedInBoundedPieces) {
  BalancedPolicy policy;
  Outbox out;
  ServerReactor reactor(ClusterState{}, policy, {}, kStart, out);
  constexpr std::uint32_t kTasks = 3 * kMaxFreedPerStep + 7;
  reactor.handle(submit(2, 0), kStart, out);
  submit_waiting(reactor, kTasks, out);  // The second waits for the first task of the first.
  succeed_first(reactor, out);
  EXPECT_EQ(count_waiting(reactor), 2 * kTasks - kMaxFreedPerStep);
  EXPECT_NE(reactor.why(TaskId{kTasks}, kStart).text.find("has succeeded"), std::string::npos);
  EXPECT_EQ(reactor.why(TaskId{kTasks + 2}, kStart).text, "It waits for 2 (pending).");
  std::size_t steps = 0;
  while (reactor.state().has_freed()) {
    ASSERT_LT(++steps, 100U);
    ASSERT_EQ(reactor.deadline(), Time{}) << "it goes on at once";
    const std::uint64_t before = count_waiting(reactor);
    out.clear();
    reactor.tick(kStart, out);
    EXPECT_LE(before - count_waiting(reactor), kMaxFreedPerStep);
  }
  EXPECT_EQ(steps, 3U);
  EXPECT_EQ(count_waiting(reactor), kTasks) << "those of the second array";
  EXPECT_TRUE(std::holds_alternative<Active>(reactor.state().find_task(TaskId{3})->state))
      << "the first of them start meanwhile";
}

TEST(Dependencies, ARestartFreesWhatWaitedForASuccess) {
  constexpr std::uint32_t kTasks = 2 * kMaxFreedPerStep + 7;
  BalancedPolicy policy;
  Outbox all;
  ServerReactor before(ClusterState{}, policy, {}, kStart, all);
  before.handle(submit(2, 0), kStart, all);
  SubmitRequest request = submit(1, kTasks);
  request.spec.depends_on = {TaskId{1}};
  before.handle(request, kStart, all);
  // One that waits for something else too stays.
  before.handle(submit(8, 0), kStart, all);
  request.spec.depends_on = {TaskId{1}, TaskId{kTasks + 2}};
  before.handle(request, kStart, all);
  std::vector<Fact> facts = std::move(all.facts);
  Outbox out;
  before.handle(WorkerHello{RequestId{2}, hello_of("w")}, kStart, out);
  before.tick(kStart, out);
  const WorkerId worker = before.state().find_worker("w")->id;
  before.handle(WorkerSays{worker, before.session(worker).epoch,
                           EndedMessage{{TaskId{1}, AttemptNumber{1}}, {}}},
                kStart, out);
  facts.insert(facts.end(), out.facts.begin(), out.facts.end());
  ASSERT_TRUE(before.state().has_freed()) << "the first life ended before it was done";
  ClusterState replayed;
  for (const Fact& fact : facts) replayed.apply(fact);
  ClusterState kept;
  before.state().snapshot([&](const Fact& fact) { kept.apply(fact); });
  EXPECT_TRUE(replayed == kept);
  for (ClusterState* state : {&replayed, &kept}) {
    EXPECT_FALSE(state->has_freed());
    EXPECT_FALSE(state->has_doomed());
    EXPECT_EQ(state->counts()[TaskState(Waiting{}).index()], kTasks);
    EXPECT_EQ(std::get<Waiting>(state->find_task(TaskId{kTasks + 3})->state).dependencies, 1U);
  }
}

TEST(Dependencies, ACancelledArrayOnWhichAnotherWaitsIsLookedAtOnce) {
  BalancedPolicy policy;
  Outbox out;
  ServerReactor reactor(ClusterState{}, policy, {}, kStart, out);
  constexpr std::uint32_t kTasks = 50'000;  // Squared, that would take minutes.
  reactor.handle(submit(1, kTasks), kStart, out);
  submit_waiting(reactor, kTasks, out);
  reactor.handle(CancelRequest{RequestId{5}, kAnn, TaskId{1}}, kStart, out);
  for (int steps = 0; steps < 40 && count_ended(reactor) < 3 * kTasks; ++steps) {
    reactor.tick(kStart, out);
  }
  EXPECT_EQ(count_ended(reactor), 3 * kTasks) << "those that wait for the second array too";
}

std::string answer_text(const Outbox& out) {
  for (const auto& effect : out.effects) {
    const auto* answer = std::get_if<Answer>(&effect);
    const auto* refusal = answer == nullptr ? nullptr : std::get_if<Refusal>(&answer->reply);
    if (refusal != nullptr) return refusal->message;
  }
  return {};
}

TEST(Files, OfEndedTasksGoWhenThereAreTooMany) {
  BalancedPolicy policy;
  Outbox out;
  ServerReactor reactor(ClusterState{}, policy, {.keep_file_bytes = 2500}, kStart, out);
  const auto hand_in = [&](std::uint32_t array) {
    SubmitRequest request = submit(1, array);
    request.spec.files = std::vector<TaskFile>{{"f", std::string(999, 'x'), false}};
    out.clear();
    reactor.handle(request, kStart, out);
    return answer_text(out);
  };
  for (const std::uint32_t array : {0U, 3U, 0U, 0U, 0U}) EXPECT_EQ(hand_in(array), "");
  EXPECT_NE(hand_in(0).find("of files that came with tasks"), std::string::npos)
      << "all that it holds belongs to tasks that wait";
  EXPECT_EQ(reactor.state().find_task(TaskId{1})->spec().files.all().size(), 1U);
  for (const std::uint64_t task : {2U, 1U}) {
    reactor.handle(CancelRequest{RequestId{5}, kAnn, TaskId{task}}, kStart, out);
    reactor.tick(kStart, out);
  }
  reactor.tick(kStart, out);
  for (std::uint64_t task = 1; task <= 4; ++task) {
    EXPECT_EQ(reactor.state().find_task(TaskId{task}), nullptr) << task;
  }
  EXPECT_NE(reactor.state().find_task(TaskId{5}), nullptr);
  EXPECT_EQ(hand_in(0), "") << "the array counted once";
  EXPECT_EQ(hand_in(0), "");
  EXPECT_NE(hand_in(0), "");
}

TEST(Cancel, WhatRunsIsStoppedOneByOneToo) {
  BalancedPolicy policy;
  Outbox out;
  ServerReactor reactor(ClusterState{}, policy, {}, kStart, out);
  reactor.handle(WorkerHello{RequestId{2}, hello_of("w")}, kStart, out);
  reactor.handle(submit(1, 5), kStart, out);
  reactor.tick(kStart, out);
  reactor.handle(CancelRequest{RequestId{5}, kAnn, TaskId{1}}, kStart, out);
  reactor.tick(kStart, out);
  EXPECT_EQ(answers_to(out, RequestId{5}), 1U);
  const auto& counts = reactor.state().counts();
  EXPECT_EQ(counts[TaskState(Active{}).index()], 2U) << "on their way out";
  EXPECT_EQ(counts[TaskState(Ended{}).index()], 3U);
  EXPECT_TRUE(reactor.state().find_task(TaskId{1})->cancelled);
  out.clear();
  reactor.handle(CancelRequest{RequestId{6}, kAnn, TaskId{5}}, kStart, out);
  EXPECT_EQ(answers_to(out, RequestId{6}), 1U) << "a single one, at once: it has ended";
}

/// A task that failed once under a server whose clock ran two days ahead.
ClusterState failed_in_the_future(const ServerOptions& options) {
  BalancedPolicy policy;
  Outbox out;
  constexpr Time kAhead = kStart + std::chrono::hours(48);
  ServerReactor reactor(ClusterState{}, policy, options, kAhead, out);
  reactor.handle(WorkerHello{RequestId{2}, hello_of("w")}, kAhead, out);
  reactor.handle(submit(0, 0, 3), kAhead, out);
  reactor.tick(kAhead, out);
  const WorkerId worker = reactor.state().find_worker("w")->id;
  const EndResult failed{EndKind::kFailed, 1, 0, ""};
  reactor.handle(WorkerSays{worker, reactor.session(worker).epoch,
                            EndedMessage{{TaskId{1}, AttemptNumber{1}}, failed}},
                 kAhead, out);
  ClusterState copy;
  reactor.state().snapshot([&](const Fact& fact) { copy.apply(fact); });
  return copy;
}

TEST(Backoff, OneThatAWrongClockSetEndsWithinTheLongest) {
  ServerOptions options;
  options.hold = options.lease;  // So that the worker, which stays away, is not waited for then.
  BalancedPolicy policy;
  Outbox out;
  ServerReactor reactor(failed_in_the_future(options), policy, options, kStart, out);
  const auto state = [&] { return state_name(reactor.state().find_task(TaskId{1})->state); };
  ASSERT_EQ(state(), "delayed");
  const WhyPending why = reactor.why(TaskId{1}, kStart);
  EXPECT_NE(why.text.find("in 300 s"), std::string::npos) << why.text;
  reactor.tick(kStart, out);
  const Time cap = kStart + options.max_backoff;
  EXPECT_LE(reactor.deadline(), cap);
  reactor.tick(cap - Nanoseconds(1), out);
  EXPECT_EQ(state(), "delayed");
  reactor.tick(cap, out);
  EXPECT_EQ(state(), "pending");
  EXPECT_EQ(reactor.deadline(), kNever) << "once is enough";
}

TEST(Backoff, OneThatWasCancelledMeanwhileStaysSo) {
  const ServerOptions options;
  BalancedPolicy policy;
  Outbox out;
  ServerReactor reactor(failed_in_the_future(options), policy, options, kStart, out);
  reactor.handle(CancelRequest{RequestId{1}, kAnn, TaskId{1}}, kStart, out);
  reactor.tick(kStart + options.max_backoff, out);
  EXPECT_EQ(state_name(reactor.state().find_task(TaskId{1})->state), "cancelled");
}

}  // namespace
}  // namespace harmonics::inline in_cluster
