// Whose turn it is, beside a twin that looks at every group each time.
#include "turns.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <tuple>

#include <harmonics/base/random.h>

namespace harmonics::inline in_cluster {
namespace {

constexpr Time kNow = std::chrono::hours(1000);

// Tasks of some users, priorities and time limits, which have waited for unlike times.
void fill(StateTables& tables, WorkloadPolicy& policy, Random& random) {
  tables.level_of = [&policy](const TaskSpec& spec, Nanoseconds ran) {
    return policy.level({spec, {}, ran});
  };
  const std::uint32_t users = 1 + random.below(5);
  for (std::uint32_t u = 0; u < users; ++u) {
    UserRecord& user = tables.user("u" + std::to_string(u));
    user.quota.weight = 1 + random.below(3);
    user.active = random.below(4);
  }
  for (std::uint32_t i = 0, tasks = random.below(60); i < tasks; ++i) {
    auto submission = std::make_shared<Submission>();
    submission->first = tables.next_task;
    submission->user = "u" + std::to_string(random.below(users));
    submission->at = kNow - std::chrono::minutes(random.below(100'000));
    submission->spec.priority = static_cast<std::int32_t>(random.below(2));
    submission->spec.timeout_s = random.below(4) == 0 ? 0 : 1U << random.below(20);
    submission->spec.required_gpus = random.below(3);
    tables.apply(TasksSubmitted{std::move(submission)});
  }
}

/// Where each group is, and the first of all by the words of `Line`.
class TurnTwin {
 public:
  TurnTwin(const StateTables& tables, const Ranking& ranking) : tables_(tables), ranking_(ranking) {
    for (const auto& [key, groups] : tables.queue.crowds()) {
      for (const auto& [level, fronts] : groups) at_[&fronts] = fronts.begin()->first;
    }
  }

  [[nodiscard]] std::optional<TaskId> first() const {
    std::optional<TaskId> best;
    for (const auto& [fronts, task] : at_) {
      if (!best || goes_before(task, *best)) best = task;
    }
    return best;
  }

  // That task had its turn.
  void pass(TaskId task) {
    for (auto& [fronts, at] : at_) {
      if (at != task) continue;
      const auto after = fronts->upper_bound(task);
      if (after == fronts->end()) {
        at_.erase(fronts);
      } else {
        at = after->first;
      }
      return;
    }
    FAIL() << "task " << task.value << " had no turn to come";
  }

 private:
  [[nodiscard]] bool goes_before(TaskId a, TaskId b) const {
    const TaskRecord& one = tables_.known_task(a);
    const TaskRecord& other = tables_.known_task(b);
    const auto priority = [](const TaskRecord& task) { return -task.spec().priority; };
    if (priority(one) != priority(other)) return priority(one) < priority(other);
    const auto level = [&](const TaskRecord& task) { return ranking_.level(task); };
    const bool levels_first = ranking_.policy.rule() != OrderRule::kShares;
    if (levels_first && level(one) != level(other)) return level(one) < level(other);
    const UserRecord& mine = tables_.known_user(one.submission->user);
    const UserRecord& theirs = tables_.known_user(other.submission->user);
    const double share = static_cast<double>(held_by(mine)) / mine.quota.weight;
    const double their_share = static_cast<double>(held_by(theirs)) / theirs.quota.weight;
    if (share != their_share) return share < their_share;
    return std::tuple(level(one), a) < std::tuple(level(other), b);
  }

  const StateTables& tables_;
  const Ranking& ranking_;
  std::map<const TaskQueue::Fronts*, TaskId> at_;
};

void play(WorkloadPolicy& policy, Random& random) {
  StateTables tables;
  fill(tables, policy, random);
  const Ranking ranking{policy, kNow};
  TurnTwin twin(tables, ranking);
  Line line(tables, ranking);
  while (!line.empty()) {
    const Turn turn = line.take();
    ASSERT_EQ(turn.front, twin.first());
    twin.pass(turn.front);
    // Some start, and their user holds more from then on.
    if (random.below(3) == 0) ++tables.user(turn.user->name).active;
    line.next(turn);
  }
  EXPECT_EQ(twin.first(), std::nullopt);
}

TEST(Line, TakesTurnsAsATwinThatLooksAtAllGroups) {
  Random random(1, "turns");
  for (int round = 0; round < 400; ++round) {
    for (const char* name : {"balanced", "srtf"}) {
      const std::unique_ptr<WorkloadPolicy> policy = make_policy(name);
      ASSERT_NO_FATAL_FAILURE(play(*policy, random)) << name << ", round " << round;
    }
  }
}

TEST(Line, WhoIsLeftIsEverybodyWhoseTurnDidNotCome) {
  Random random(2, "turns");
  for (int round = 0; round < 200; ++round) {
    BalancedPolicy policy;
    StateTables tables;
    fill(tables, policy, random);
    Line line(tables, {policy, kNow});
    std::size_t taken = 0;
    for (std::uint32_t turns = random.below(6); turns > 0 && !line.empty(); --turns) {
      static_cast<void>(line.take());
      ++taken;
    }
    std::size_t groups = 0;
    for (const auto& [key, levels] : tables.queue.crowds()) groups += levels.size();
    EXPECT_EQ(line.left().size() + taken, groups);
    EXPECT_TRUE(line.empty());
  }
}

TEST(Line, WhatHasStartedOutOfItsTurnHasNoneAnyMore) {
  BalancedPolicy policy;
  StateTables tables;
  for (const std::uint32_t gpus : {1U, 2U}) {
    auto submission = std::make_shared<Submission>();
    submission->first = tables.next_task;
    submission->user = "u";
    submission->spec.required_gpus = gpus;
    tables.apply(TasksSubmitted{std::move(submission)});
  }
  Line line(tables, {policy, kNow});
  ASSERT_FALSE(line.empty());
  const TaskQueue::Fronts& group = tables.queue.crowds().begin()->second.begin()->second;
  tables.queue.remove(tables.lane_of(tables.known_task(TaskId{1})), TaskId{1});
  line.started(&group, TaskId{1}, false);
  ASSERT_FALSE(line.empty());
  EXPECT_EQ(line.take().front, TaskId{2});
  tables.queue.remove(tables.lane_of(tables.known_task(TaskId{2})), TaskId{2});
  EXPECT_TRUE(line.empty());
}

}  // namespace
}  // namespace harmonics::inline in_cluster
