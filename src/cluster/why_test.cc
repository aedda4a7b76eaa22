// What `why` says is so: random clusters and queues against a naive look at the same state. And
// however many kinds of tasks wait, everybody who can start has their turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/random.h>
#include <harmonics/cluster/reactor.h>

#include "scheduler.h"

namespace harmonics::inline in_cluster {
namespace {

using Reason = WhyPending::Reason;

/// More kinds than a pass asks for, and more than it looks at from the head of the line.
constexpr std::uint32_t kManyKinds = 1000;
constexpr std::uint32_t kLongQueue = 3000;

/// A server whose workers answer when they are told to.
class Cluster {
 public:
  explicit Cluster(ServerOptions options = {})
      : reactor_(ClusterState{}, policy_, options, now_, out_) {}

  void feed(const ServerEvent& event) { reactor_.handle(event, now_, out_); }
  WorkerId join(const std::string& name, const std::vector<std::uint64_t>& gpus,
                std::uint32_t cpus = 0, std::uint64_t memory_mb = 0) {
    HelloMessage hello;
    hello.spec.name = hello.spec.identity = name;
    hello.spec.cpus = cpus;
    hello.spec.memory_mb = memory_mb;
    for (const std::uint64_t memory : gpus) {
      hello.spec.devices.push_back({std::to_string(hello.spec.devices.size()), "", memory});
    }
    feed(WorkerHello{RequestId{1}, hello});
    return state().find_worker(name)->id;
  }
  TaskId submit(TaskSpec spec, const std::string& user = "ann") {
    spec.name = "t";
    const TaskId first = state().next_task();
    feed(SubmitRequest{RequestId{1}, {user, false}, std::move(spec)});
    return first;
  }
  void tick() {
    reactor_.tick(now_, out_);
    out_.clear();
  }
  /// Passes until none is due; a bounded number of them.
  void settle() {
    for (int i = 0; i < 1000 && reactor_.deadline() == Time{}; ++i) tick();
    ASSERT_NE(reactor_.deadline(), Time{}) << "the passes do not end";
  }
  void end(AttemptId id, WorkerId worker, EndKind kind = EndKind::kSucceeded) {
    const Epoch epoch = reactor_.session(worker).epoch;
    feed(WorkerSays{worker, epoch, EndedMessage{id, {kind, 0, 0, ""}}});
  }
  void beat(Nanoseconds later) {
    now_ += later;
    for (const WorkerRecord* worker : state().workers()) {
      feed(WorkerSays{worker->id, reactor_.session(worker->id).epoch, HeartbeatMessage{1}});
    }
  }
  [[nodiscard]] WhyPending why(TaskId id) const { return reactor_.why(id, now_); }
  [[nodiscard]] const ClusterState& state() const { return reactor_.state(); }
  [[nodiscard]] bool pending(TaskId id) const {
    return std::holds_alternative<Pending>(state().find_task(id)->state);
  }
  [[nodiscard]] bool runs(TaskId id) const {
    return std::holds_alternative<Active>(state().find_task(id)->state);
  }
  [[nodiscard]] std::vector<TaskId> all_pending() const {
    std::vector<TaskId> ids;
    state().each_task(TaskId{}, 100'000, [&](const TaskRecord& task) {
      if (std::holds_alternative<Pending>(task.state)) ids.push_back(task.id);
    });
    return ids;
  }

 private:
  Time now_ = std::chrono::hours(1);
  BalancedPolicy policy_;
  Outbox out_;
  ServerReactor reactor_;
};

TaskSpec needing(std::uint32_t gpus, std::uint32_t cpus = 0, std::uint64_t memory_mb = 0) {
  TaskSpec spec;
  spec.required_gpus = gpus;
  spec.cpus = cpus;
  spec.memory_mb = memory_mb;
  spec.wait_for_machines = true;
  return spec;
}

TEST(Queue, KindsThatNobodyCanRunStopNobody) {
  Cluster cluster;
  cluster.join("w", {8192}, 2);
  for (std::uint32_t i = 0; i < kLongQueue; ++i) {
    cluster.submit(needing(5, 0, 1000 + i), "eve");
  }
  const TaskId task = cluster.submit(needing(0, 1), "ann");
  cluster.settle();
  EXPECT_TRUE(cluster.runs(task));
  EXPECT_EQ(cluster.why(TaskId{1}).reason, Reason::kImpossible);
}

// They all wait for the one device, each is a kind of its own, and the queue is longer than a pass.
TEST(Queue, KindsThatWaitStopNobody) {
  Cluster cluster;
  cluster.join("busy", {8192}, 0, 1 << 20);
  cluster.submit(needing(1));
  cluster.settle();
  for (std::uint32_t i = 0; i < kLongQueue; ++i) cluster.submit(needing(1, 0, 1000 + i));
  cluster.join("idle", {}, 2);
  const TaskId task = cluster.submit(needing(0, 1));
  cluster.tick();
  EXPECT_TRUE(cluster.pending(task)) << "this many are too much for one pass";
  EXPECT_EQ(cluster.why(task).reason, Reason::kTurn);
  cluster.settle();
  EXPECT_TRUE(cluster.runs(task));
}

TEST(Queue, WhoeverIsOverQuotaStopsNobody) {
  Cluster cluster;
  cluster.join("w", {8192}, 4, 1 << 20);
  cluster.feed(QuotaRequest{RequestId{1}, {"root", true}, "eve", {.max_active = 1}});
  for (std::uint32_t i = 0; i < kLongQueue; ++i) {
    TaskSpec spec = needing(0, 1, 1 + i % 1000);
    spec.timeout_s = 1 + i;
    cluster.submit(std::move(spec), "eve");
  }
  TaskSpec late = needing(0, 1);
  late.priority = -1;
  const TaskId task = cluster.submit(late, "ann");
  cluster.settle();
  EXPECT_TRUE(cluster.runs(task));
}

// Somebody hands in more new kinds between two passes than a pass looks at, all more important.
TEST(Queue, AFloodOfNewKindsStopsNobody) {
  Cluster cluster;
  cluster.join("busy", {8192}, 0, 1 << 20);
  cluster.submit(needing(1));
  cluster.settle();
  const auto flood = [&](std::uint32_t round) {
    for (std::uint32_t i = 0; i < kManyKinds; ++i) {
      TaskSpec spec = needing(1, 0, 1000 + round * kManyKinds + i);
      spec.priority = 0;
      cluster.submit(std::move(spec), "eve");
    }
  };
  flood(0);
  cluster.join("idle", {}, 2);
  TaskSpec low = needing(0, 1);
  low.priority = -1;
  const TaskId task = cluster.submit(low, "ann");
  std::uint32_t rounds = 1;
  for (; rounds < 40 && !cluster.runs(task); ++rounds) {
    cluster.tick();
    flood(rounds);
  }
  EXPECT_LT(rounds, 40U);
}

// Small tasks that come and go must not keep a large one waiting for ever, even where it stands
// behind so many others that a pass hardly reaches it.
TEST(Queue, TheHeadKeepsItsReservationBehindALongQueue) {
  Cluster cluster;
  const WorkerId worker = cluster.join("w", {8192, 8192}, 4);
  for (std::uint32_t i = 0; i < kSweepSteps.most + kHeadSteps.most; ++i) {
    cluster.submit(needing(5, 0, 1000 + i), "eve");
  }
  const auto small = [&] { return cluster.submit(needing(1)); };
  std::vector<TaskId> running = {small(), small()};
  cluster.settle();
  const TaskId large = cluster.submit(needing(2));
  for (int round = 0; round < 8 && cluster.pending(large); ++round) {
    const TaskId next = small();
    cluster.settle();
    cluster.end({running.front(), {1}}, worker);
    running.erase(running.begin());
    running.push_back(next);
    // One pass at a time, and something always changes.
    for (int pass = 0; pass < 3; ++pass) {
      cluster.tick();
      cluster.feed(QuotaRequest{RequestId{1}, {"root", true}, "ann", {}});
    }
    if (!cluster.runs(running.front())) break;
  }
  for (const TaskId id : running) {
    if (cluster.runs(id)) cluster.end({id, {1}}, worker);
  }
  cluster.settle();
  EXPECT_TRUE(cluster.runs(large)) << cluster.why(large).text;
}

TEST(Queue, ATaskForCoresRunsBesideOneThatWaitsForADevice) {
  Cluster cluster;
  cluster.join("w", {8192}, 2);
  const TaskId first = cluster.submit(needing(1));
  cluster.settle();
  const TaskId second = cluster.submit(needing(1));
  const TaskId cores = cluster.submit(needing(0, 1));
  cluster.settle();
  EXPECT_TRUE(cluster.runs(first));
  EXPECT_TRUE(cluster.pending(second));
  EXPECT_TRUE(cluster.runs(cores)) << cluster.why(cores).text;
}

// Whichever of the two that run ends first: the head starts then, so nobody may take the device
// that is free.
TEST(Queue, WhatCouldDelayTheHeadIsHeldBackThoughNobodyKnowsWhen) {
  Cluster cluster;
  cluster.join("w", {8192, 8192, 8192, 8192}, 2);
  cluster.submit(needing(2));
  const TaskId small = cluster.submit(needing(1));
  cluster.settle();
  const TaskId head = cluster.submit(needing(2));
  const TaskId later = cluster.submit(needing(1));
  cluster.settle();
  EXPECT_TRUE(cluster.pending(later));
  EXPECT_EQ(cluster.why(later).reason, Reason::kReserved);
  cluster.end({small, {1}}, cluster.state().find_worker("w")->id);
  cluster.settle();
  EXPECT_TRUE(cluster.runs(head));
}

TEST(Queue, WhatTheHeadCannotUseIsNotHeldBack) {
  Cluster cluster;
  cluster.join("w", {8192, 8192, 8192, 4096}, 2);
  TaskSpec large = needing(3);
  large.min_gpu_memory_mb = 8192;
  cluster.submit(large);
  cluster.settle();
  TaskSpec head = large;
  head.required_gpus = 1;
  const TaskId waits = cluster.submit(head);
  const TaskId small = cluster.submit(needing(1));
  cluster.settle();
  EXPECT_TRUE(cluster.pending(waits));
  EXPECT_TRUE(cluster.runs(small)) << "the head needs another kind of device";
}

/// Checks every claim of `why` against the state, without the scheduler's help.
class Doubter {
 public:
  explicit Doubter(const Cluster& cluster) : cluster_(cluster) {}

  /// No pass is due.
  void check(TaskId id) {
    const WhyPending why = cluster_.why(id);
    ++seen_[why.reason];
    const TaskRecord& task = *cluster_.state().find_task(id);
    const std::uint32_t gang = task.spec().gang;
    const Needs needs = needs_of(task.spec());
    const std::size_t roomy = count([&](const Worker& w) { return w.open && w.fits(needs); });
    const auto capable = [&](const Worker& w) { return could_ever_fit(w.spec, needs); };
    const auto here = [&](const Worker& w) { return w.open && capable(w); };
    SCOPED_TRACE(format("task {}: {}: {}", id.value, to_string(why.reason), why.text));
    switch (why.reason) {
      case Reason::kQuota:
        EXPECT_TRUE(over_quota(*cluster_.state().find_user(task.submission->user), needs, gang));
        break;
      case Reason::kImpossible: EXPECT_LT(count(capable), gang); break;
      case Reason::kNoWorkers: EXPECT_LT(count(here), gang); break;
      case Reason::kUnable:
        EXPECT_LT(count(here), gang);
        EXPECT_GT(count([&](const Worker& w) { return !w.open && capable(w); }), 0U);
        break;
      case Reason::kBusy:
        EXPECT_GE(count(here), gang);
        EXPECT_LT(roomy, gang);
        break;
      case Reason::kReserved: check_reserved(task, why, roomy); break;
      default: ADD_FAILURE() << "is no reason to wait";
    }
  }
  [[nodiscard]] const std::map<Reason, std::size_t>& seen() const { return seen_; }

 private:
  template <typename Test>
  std::size_t count(Test test) const {
    const std::vector<const Worker*> all = cluster_.state().pool().all();
    return static_cast<std::size_t>(
        std::ranges::count_if(all, [&](const Worker* w) { return test(*w); }));
  }

  void check_reserved(const TaskRecord& task, const WhyPending& why, std::size_t roomy) const {
    constexpr std::string_view kBefore = "kept for task ";
    const std::size_t at = why.text.find(kBefore);
    ASSERT_NE(at, std::string::npos);
    const TaskId id{
        leading_number<std::uint64_t>(why.text.substr(at + kBefore.size())).value_or(0)};
    ASSERT_NE(id, task.id);
    ASSERT_TRUE(cluster_.pending(id)) << "the head does not wait";
    const TaskRecord& head = *cluster_.state().find_task(id);
    EXPECT_GE(head.spec().priority, task.spec().priority);
    EXPECT_LT(roomy - why.workers.size(), task.spec().gang) << "others have room";
    if (task.spec().gang > 1) return;  // Those never go beside a head.
    for (const WorkerId worker : why.workers) {
      EXPECT_TRUE(could_delay(cluster_.state().pool().at(worker), task.spec(), head.spec()))
          << "on " << worker.value;
    }
  }

  /// Whether some of those that run there could end such that the head fits, but not beside `late`.
  [[nodiscard]] bool could_delay(const Worker& worker, const TaskSpec& late,
                                 const TaskSpec& head) const {
    const ClusterState& state = cluster_.state();
    const std::vector<AttemptId> attempts = state.attempts_on(worker.id);
    for (std::uint64_t some = 0; some < std::uint64_t{1} << attempts.size(); ++some) {
      Worker then = worker;
      for (std::size_t i = 0; i < attempts.size(); ++i) {
        if ((some >> i & 1) == 0) continue;
        const TaskRecord& task = *state.find_task(attempts[i].task);
        const auto& members = std::get<Active>(task.state).members;
        const auto member = std::ranges::find(members, worker.id, &Member::worker);
        then.free = then.free.with(member->devices);
        then.free_cpus += task.spec().cpus;
        then.free_memory_mb += task.spec().memory_mb;
      }
      if (!then.fits(needs_of(head))) continue;
      const Needs needs = needs_of(late);
      then.free = then.free.without(worker.choose(needs));
      then.free_cpus -= needs.cpus;
      then.free_memory_mb -= needs.memory_mb;
      if (!then.fits(needs_of(head))) return true;
    }
    return false;
  }

  const Cluster& cluster_;
  std::map<Reason, std::size_t> seen_;
};

/// Draws what happens to a cluster.
class Fate {
 public:
  Fate(std::uint64_t seed, Cluster& cluster) : random_(seed, "why"), cluster_(cluster) {
    for (std::uint64_t i = 0, n = 1 + random_.below(4); i < n; ++i) {
      std::vector<std::uint64_t> gpus(random_.below(4));
      for (std::uint64_t& memory : gpus) memory = pick<std::uint64_t>({8192, 16384});
      workers_.push_back(cluster_.join(format("w{}", i), gpus,
                                       static_cast<std::uint32_t>(1 + random_.below(5)), 64'000));
    }
  }

  void strike() {
    switch (random_.below(12)) {
      case 0: drain(); break;
      case 1: limit(); break;
      case 2: cancel(); break;
      case 3: cluster_.beat(std::chrono::seconds(1 + random_.below(20))); break;
      case 4:
      case 5:
      case 6:
      case 7: end(); break;
      default: submit(); break;
    }
  }

 private:
  template <typename T>
  T pick(std::initializer_list<T> of) {
    return of.begin()[random_.below(of.size())];
  }
  std::string user() { return pick<std::string>({"ann", "bob", "eve"}); }

  void submit() {
    TaskSpec spec =
        needing(static_cast<std::uint32_t>(random_.below(4)), pick<std::uint32_t>({0, 1, 1, 3}),
                pick<std::uint64_t>({0, 0, 16'000, 40'000}));
    spec.min_gpu_memory_mb = pick<std::uint64_t>({4096, 12'000});
    spec.timeout_s = pick<std::uint32_t>({0, 0, 10, 60});
    spec.gang = pick<std::uint32_t>({1, 1, 1, 1, 2, 3});
    spec.priority = pick<std::int32_t>({0, 0, 0, 1, -1});
    spec.array = pick<std::uint32_t>({0, 0, 2, 4});
    cluster_.submit(std::move(spec), user());
  }
  void limit() {
    QuotaRequest request;
    request.caller = {"root", true};
    request.user = user();
    request.quota.max_gpus = pick<std::uint32_t>({0, 0, 1, 3});
    request.quota.max_active = pick<std::uint32_t>({0, 0, 2});
    cluster_.feed(request);
  }
  void drain() {
    const WorkerRecord* worker =
        cluster_.state().find_worker(workers_[random_.below(workers_.size())]);
    cluster_.feed(DrainRequest{RequestId{1}, {"root", true}, worker->spec.name, !worker->draining});
  }
  void cancel() {
    const std::vector<TaskId> pending = cluster_.all_pending();
    if (pending.empty()) return;
    const TaskId id = pending[random_.below(pending.size())];
    cluster_.feed(CancelRequest{RequestId{1}, {"root", true}, id});
  }
  /// One member of something that runs, as it was told to or by itself, or that could not be
  /// started.
  void end() {
    const WorkerId worker = workers_[random_.below(workers_.size())];
    const std::vector<AttemptId> attempts = cluster_.state().attempts_on(worker);
    if (attempts.empty()) return;
    const AttemptId id = attempts[random_.below(attempts.size())];
    const Active& active = std::get<Active>(cluster_.state().find_task(id.task)->state);
    cluster_.end(id, worker,
                 active.stopping ? EndKind::kStopped
                                 : pick({EndKind::kSucceeded, EndKind::kSucceeded,
                                         EndKind::kSucceeded, EndKind::kUnable}));
  }

  Random random_;
  Cluster& cluster_;
  std::vector<WorkerId> workers_;
};

TEST(Why, SaysWhatIsSo) {
  std::map<Reason, std::size_t> seen;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(seed);
    ServerOptions options;
    options.max_starts_per_tick = seed % 3 == 0 ? 2 : 4096;
    Cluster cluster(options);
    Fate fate(seed, cluster);
    Doubter doubter(cluster);
    for (int i = 0; i < 120 && !::testing::Test::HasFailure(); ++i) {
      fate.strike();
      for (int pass = 0; pass < 100; ++pass) {
        std::vector<TaskId> next;
        for (const TaskId id : cluster.all_pending()) {
          const Reason reason = cluster.why(id).reason;
          if (reason == Reason::kNext) next.push_back(id);
          ++seen[reason];
        }
        cluster.tick();
        for (const TaskId id : next) EXPECT_FALSE(cluster.pending(id)) << id.value;
        if (next.empty() && pass > 0) break;
      }
      cluster.settle();
      for (const TaskId id : cluster.all_pending()) doubter.check(id);
    }
    for (const auto& [reason, count] : doubter.seen()) seen[reason] += count;
    if (::testing::Test::HasFailure()) break;
  }
  for (const Reason reason :
       {Reason::kNext, Reason::kTurn, Reason::kQuota, Reason::kImpossible, Reason::kNoWorkers,
        Reason::kUnable, Reason::kReserved, Reason::kBusy}) {
    EXPECT_GT(seen[reason], 20U) << to_string(reason) << " hardly ever came";
  }
}

}  // namespace
}  // namespace harmonics::inline in_cluster
