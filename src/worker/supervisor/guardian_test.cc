// Nothing of an attempt lives on when it has ended, whoever is killed: with real processes that
// hide from their parents, their session and their environment, in a cgroup and without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "cgroups.h"
#include "supervisor_testing.h"
#include "task_cgroup.h"

namespace harmonics::inline in_worker {
namespace {

constexpr std::size_t kProcesses = 5;

/// The parameter: whether the task is in a cgroup.
class Guardians : public SupervisorTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !cgroups_.holds_tasks()) GTEST_SKIP() << "no cgroup of v2 can be made here";
  }
  ~Guardians() override {
    for (const auto& [attempt, folders] : cgroups_.leftover()) {
      while (!kill_cgroups(folders)) ::poll(nullptr, 0, 1);
      remove_cgroups(folders);
    }
  }

  /// Starts an attempt that holds a lock and whose processes are hard to find: their own sessions,
  /// no environment, no parent. Their pids, once all run.
  std::vector<pid_t> start(const std::string& attempt) {
    RunRecord record =
        script(attempt, format("exec 9>>{0}; flock -n 9 || exit 9; echo $$; sleep 1000 & echo $!; "
                               "env -i setsid sleep 1000 & echo $!; "
                               "(env -i setsid sleep 1000 & echo $!); "
                               "(setsid env -i sh -c 'sleep 1000; true' & echo $!); wait",
                               (folder_ / "lock").string()));
    if (GetParam()) record.cgroups = cgroups_.make(attempt, {});
    host_->start(record);
    std::vector<pid_t> pids = printed_pids(attempt, kProcesses);
    strays_.insert(strays_.end(), pids.begin(), pids.end());
    until([&] { return std::ranges::find(launched_, attempt) != launched_.end(); });
    // Until `env -i` has run it is still to be found by its mark.
    for (std::size_t hidden = 2; hidden < pids.size(); ++hidden) {
      until([&] { return text_of(format("/proc/{}/environ", pids[hidden])).empty(); });
    }
    return pids;
  }
  SupervisorRecord record_of(const std::string& attempt) const {
    return read_supervisor((folder_ / "attempts" / attempt).string()).value_or(SupervisorRecord{});
  }
  static std::vector<pid_t> living(const std::vector<pid_t>& pids) {
    std::vector<pid_t> found;
    std::ranges::copy_if(pids, std::back_inserter(found), lives);
    return found;
  }
  /// Both at the same moment, as far as they can tell: neither acts on the other's death.
  static void kill_both(const SupervisorRecord& record) {
    for (const int signal : {SIGSTOP, SIGKILL}) {
      ::kill(record.guardian, signal);
      ::kill(record.pid, signal);
    }
  }
  /// The lock goes with the last process that has it: the next attempt gets it at once.
  void expect_next_attempt_runs_alone() {
    RunRecord next = script("1.2", format("exec 9>>{}; flock -n 9", (folder_ / "lock").string()));
    EXPECT_EQ(run(next).exit_code, 0) << "a process of the first attempt still has the lock";
  }
  void expect_lost_and_gone(const std::vector<pid_t>& pids) {
    EXPECT_EQ(end_of("1.1").kind, RunEnd::kLost);
    EXPECT_EQ(living(pids), std::vector<pid_t>{});
    expect_next_attempt_runs_alone();
  }
  /// The end of what a new worker finds, told at once or a moment later.
  EndRecord recovered_end() {
    const std::vector<RecoveredRun> found = host_->recover();
    EXPECT_EQ(found.size(), 1u);
    if (!found.empty() && found[0].ended) return *found[0].ended;
    return end_of("1.1");
  }

  Cgroups cgroups_{format("test{}", ::getpid())};
};

TEST_P(Guardians, ATaskIsBornInItsCgroup) {
  if (!GetParam()) GTEST_SKIP() << "it has none";
  for (const pid_t pid : start("1.1")) {
    EXPECT_THAT(text_of(format("/proc/{}/cgroup", pid)), testing::HasSubstr("-1.1\n"));
  }
  EXPECT_THAT(text_of(format("/proc/{}/cgroup", record_of("1.1").pid)),
              testing::Not(testing::HasSubstr("-1.1\n")));
  host_->stop("1.1", {RunEnd::kStopped, 60'000});
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kStopped);
  EXPECT_TRUE(cgroups_.leftover().empty());
}

TEST_P(Guardians, AKilledSupervisorTakesItsTaskAlong) {
  const std::vector<pid_t> pids = start("1.1");
  ::kill(record_of("1.1").pid, SIGKILL);
  expect_lost_and_gone(pids);
  EXPECT_EQ(ends_["1.1"].message, "its supervisor was killed");
}

TEST_P(Guardians, AKilledGuardianTakesTheTaskAlong) {
  const std::vector<pid_t> pids = start("1.1");
  ::kill(record_of("1.1").guardian, SIGKILL);
  expect_lost_and_gone(pids);
  EXPECT_THAT(ends_["1.1"].message, testing::HasSubstr("its guardian w"));
}

TEST_P(Guardians, BothKilledAtOnceTakeTheTaskAlong) {
  const std::vector<pid_t> pids = start("1.1");
  kill_both(record_of("1.1"));
  expect_lost_and_gone(pids);
}

TEST_P(Guardians, WorkerAndSupervisorKilledLeaveNothingAndNobodyNeedsToCome) {
  const std::vector<pid_t> pids = start("1.1");
  const SupervisorRecord record = record_of("1.1");
  host_.reset();
  ::kill(record.pid, SIGKILL);
  until([&] { return living(pids).empty() && !lives(record.guardian); });
  restart();
  EXPECT_EQ(recovered_end().kind, RunEnd::kLost);
  expect_next_attempt_runs_alone();
}

TEST_P(Guardians, WorkerAndGuardianKilledLeaveNothingAndNobodyNeedsToCome) {
  const std::vector<pid_t> pids = start("1.1");
  const SupervisorRecord record = record_of("1.1");
  host_.reset();
  ::kill(record.guardian, SIGKILL);
  until([&] { return living(pids).empty() && !lives(record.pid); });
  restart();
  EXPECT_EQ(recovered_end().kind, RunEnd::kLost);
  expect_next_attempt_runs_alone();
}

// The kill may not have come about when the new worker looks: then it attaches to who still lives,
// and hears of the end a moment later.
TEST_P(Guardians, ASupervisorKilledWhileTheWorkerIsAwayIsALoss) {
  const std::vector<pid_t> pids = start("1.1");
  const pid_t supervisor = record_of("1.1").pid;
  host_.reset();
  ::kill(supervisor, SIGKILL);
  restart();
  EXPECT_EQ(recovered_end().kind, RunEnd::kLost);
  EXPECT_EQ(living(pids), std::vector<pid_t>{});
}

TEST_P(Guardians, TasksOutliveTheWorkerAlone) {
  const std::vector<pid_t> pids = start("1.1");
  host_.reset();
  restart();
  const std::vector<RecoveredRun> found = host_->recover();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].ended);
  EXPECT_EQ(living(pids), pids);
  host_->stop("1.1", {RunEnd::kStopped, 60'000});
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kStopped);
  EXPECT_EQ(living(pids), std::vector<pid_t>{});
}

// Everybody who could have seen to it was killed. In a cgroup the next worker does; elsewhere it
// kills what it can find, and what it cannot show to be gone keeps its devices.
TEST_P(Guardians, WhatCannotBeShownToBeGoneDoesNotEnd) {
  const std::vector<pid_t> pids = start("1.1");
  const SupervisorRecord record = record_of("1.1");
  host_.reset();
  until([&] {
    return parent_of(record.guardian) == 1 || !lives(parent_of(record.guardian)) ||
           text_of(format("/proc/{}/comm", parent_of(record.guardian))) != "harm-launcher\n";
  });
  kill_both(record);
  until_gone({record.guardian, record.pid});
  restart();
  if (GetParam()) {
    EXPECT_EQ(recovered_end().kind, RunEnd::kLost);
    EXPECT_EQ(living(pids), std::vector<pid_t>{});
    return;
  }
  const std::vector<RecoveredRun> found = host_->recover();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].launched);
  EXPECT_FALSE(found[0].ended);
  until_gone({pids[0], pids[1]});  // by their mark
  EXPECT_EQ(living(pids).size(), kProcesses - 2);
  const auto later = std::chrono::steady_clock::now() + milliseconds(1200);
  until([&] { return std::chrono::steady_clock::now() > later; });
  EXPECT_TRUE(ends_.empty()) << "ended while some of it lives";
  for (const pid_t pid : living(pids)) ::kill(pid, SIGKILL);
  until_gone(pids);
  fs::remove_all(folder_ / "attempts" / "1.1");
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kLost);
}

// A machine or container that has started again has nothing of before.
TEST_P(Guardians, AnotherLifeOfTheMachineShowsThatAllIsGone) {
  const fs::path folder = folder_ / "attempts" / "1.1";
  fs::create_directory(folder);
  ASSERT_TRUE(write_run(folder.string(), script("1.1", "true")));
  ASSERT_TRUE(write_supervisor(folder.string(), {::getpid(), 1, boot_id() + ":1", 2, 1}));
  restart();
  EXPECT_EQ(recovered_end().kind, RunEnd::kLost);
}

INSTANTIATE_TEST_SUITE_P(, Guardians, testing::Bool(), [](const auto& parameter) {
  return parameter.param ? "InACgroup" : "WithoutCgroup";
});

}  // namespace
}  // namespace harmonics::inline in_worker
