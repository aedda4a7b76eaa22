// The tables behind the state, and facts that cannot follow from it.
#include <set>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/cluster/cluster_state.h>
#include <harmonics/cluster/fact_codec.h>

#include "check_testing.h"
#include "fact_testing.h"
#include "id_ranges.h"
#include "task/task_table.h"

namespace harmonics::inline in_cluster {
namespace {

TEST(IdRanges, IsASet) {
  Random random(1, "ranges");
  IdRanges ranges;
  std::set<std::uint64_t> twin;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t id = 1 + random.below(60);
    if (twin.insert(id).second) {
      ranges.add(TaskId{id});
    } else {
      ranges.remove(TaskId{id});
      twin.erase(id);
    }
    ASSERT_EQ(ranges.size(), twin.size());
    ASSERT_EQ(ranges.empty(), twin.empty());
    ASSERT_TRUE(twin.empty() || ranges.front().value == *twin.begin());
    const std::uint64_t limit = random.below(62);
    const auto below = std::distance(twin.begin(), twin.lower_bound(limit));
    ASSERT_EQ(ranges.count_below(TaskId{limit}), static_cast<std::uint64_t>(below));
  }
}

TEST(IdRanges, MistakesAreLoud) {
  IdRanges ranges;
  ranges.add(TaskId{5}, TaskId{9});
  expect_broken_check("task 7 is queued twice", [&] { ranges.add(TaskId{7}); });
  expect_broken_check("task 5 is queued twice", [&] { ranges.add(TaskId{1}, TaskId{5}); });
  expect_broken_check("task 4 is not queued", [&] { ranges.remove(TaskId{4}); });
  expect_broken_check("task 10 is not queued", [&] { ranges.remove(TaskId{10}); });
}

TaskRecord record_of(std::uint64_t id) {
  TaskRecord record;
  record.id = TaskId{id};
  record.submission = std::make_shared<Submission>();
  return record;
}

TEST(TaskTable, FindsWalksAndForgets) {
  TaskTable table;
  for (const std::uint64_t id : {5000U, 5001U, 9000U, 3U}) table.add(record_of(id));
  EXPECT_EQ(table.size(), 4U);
  EXPECT_EQ(table.find(TaskId{5001})->id, TaskId{5001});
  EXPECT_EQ(table.find(TaskId{5002}), nullptr);
  EXPECT_EQ(table.find(TaskId{1}), nullptr);
  EXPECT_EQ(table.find(TaskId{1'000'000'000}), nullptr);
  std::vector<std::uint64_t> seen;
  const auto visit = [&](const TaskRecord& record) {
    seen.push_back(record.id.value);
    return true;
  };
  table.each(TaskId{4}, visit);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{5000, 5001, 9000}));
  table.erase(TaskId{5000});
  table.erase(TaskId{5001});
  seen.clear();
  table.each(TaskId{}, visit);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{3, 9000}));
  EXPECT_THROW(table.add(record_of(std::uint64_t{1} << 60)), Error) << "ids too far apart";
}

/// A small story that leaves a task of each state.
std::vector<Fact> living_state() {
  std::vector<Fact> facts{TermStarted{Term{1}, Time{1}}};
  WorkerRecord worker;
  worker.id = WorkerId{1};
  worker.spec = {"worker-1", "here", {{"0", "m", 8192}, {"1", "m", 8192}}, 4, 1000, "x"};
  facts.push_back(WorkerRegistered{worker});
  for (std::uint64_t id = 1; id <= 5; ++id) {
    auto submission = std::make_shared<Submission>();
    submission->first = TaskId{id};
    submission->user = "ann";
    submission->spec.name = "t";
    if (id == 5) submission->spec.depends_on = {TaskId{4}};
    facts.push_back(TasksSubmitted{submission});
  }
  const auto start = [&](std::uint64_t id, std::uint64_t device) {
    facts.push_back(
        AttemptStarted{{TaskId{id}, {1}}, {{WorkerId{1}, DeviceSet{device}, false, {}}}, Time{2}});
  };
  start(1, 1);
  facts.push_back(MemberEnded{{TaskId{1}, {1}}, 0, {}});
  facts.push_back(TaskEnded{TaskId{1}, TaskOutcome::kSucceeded, EndResult{}, Time{3}});
  start(2, 1);
  facts.push_back(MemberEnded{{TaskId{2}, {1}}, 0, {EndKind::kFailed, 1, 0, "x"}});
  facts.push_back(AttemptRequeued{{TaskId{2}, {1}}, AttemptRequeued::Reason::kFailure, Time{1000}});
  start(3, 2);
  return facts;
}

TEST(ClusterState, ASnapshotIsTheState) {
  ClusterState state;
  for (const Fact& fact : living_state()) state.apply(fact);
  EXPECT_EQ(state.counts(), (std::array<std::uint64_t, 5>{1, 1, 1, 1, 1}));
  ClusterState again;
  state.snapshot([&](const Fact& fact) { again.apply(fact); });
  EXPECT_TRUE(again == state);
  // And it goes on the same way.
  for (ClusterState* one : {&state, &again}) {
    one->apply(AttemptStarted{{TaskId{4}, {1}}, {{WorkerId{1}, DeviceSet{1}, false, {}}}, Time{5}});
    one->apply(MemberEnded{{TaskId{4}, {1}}, 0, {}});
    one->apply(TaskEnded{TaskId{4}, TaskOutcome::kSucceeded, EndResult{}, Time{6}});
    EXPECT_EQ(state_name(one->find_task(TaskId{5})->state), "pending")
        << "its dependency succeeded";
  }
  EXPECT_TRUE(again == state);
}

TEST(ClusterState, FactsThatCannotBeAreRefused) {
  const AttemptId third{TaskId{3}, {1}};
  const Fact wrong[] = {
      TermStarted{Term{1}, Time{}},
      AttemptStarted{third, {}, Time{}},
      AttemptStarted{{TaskId{4}, {2}}, {}, Time{}},
      AttemptStarted{{TaskId{4}, {1}}, {{WorkerId{1}, DeviceSet{2}, false, {}}}, Time{}},
      AttemptStarted{{TaskId{4}, {1}}, {{WorkerId{7}, DeviceSet{}, false, {}}}, Time{}},
      MemberLaunched{third, 1},
      MemberEnded{{TaskId{3}, {2}}, 0, {}},
      MemberEnded{{TaskId{99}, {1}}, 0, {}},
      AttemptRequeued{third, AttemptRequeued::Reason::kLoss, Time{}},
      TaskEnded{TaskId{1}, TaskOutcome::kFailed, {}, Time{}},
      TaskEnded{TaskId{3}, TaskOutcome::kFailed, {}, Time{}},
      TaskReady{TaskId{3}},
      TasksForgotten{{TaskId{3}}},
      WorkerForgotten{WorkerId{1}},
      WorkerForgotten{WorkerId{2}},
      WorkerDraining{WorkerId{2}, true},
  };
  for (const Fact& fact : wrong) {
    ClusterState state;
    for (const Fact& good : living_state()) state.apply(good);
    EXPECT_THROW(state.apply(fact), Error) << "alternative " << fact.index();
  }
}

TEST(ClusterState, AnyFactsAreAppliedOrRefused) {
  Random random(9, "any facts");
  for (int round = 0; round < 2000; ++round) {
    ClusterState state;
    for (const Fact& good : living_state()) state.apply(good);
    for (int i = 0; i < 10; ++i) {
      try {
        state.apply(random_fact(random));
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_cluster
