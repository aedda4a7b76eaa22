// Supervisors with real processes: what they run, keep, limit, survive and leave behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <harmonics/base/error.h>

#include "supervisor_testing.h"

namespace harmonics::inline in_worker {
namespace {

TEST_F(SupervisorTest, RunsAProgramAndKeepsWhatItPrints) {
  const EndRecord end = run(script("1.1", "echo hello; echo oops >&2"));
  EXPECT_EQ(end.kind, RunEnd::kExited);
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(launched_, std::vector<std::string>{"1.1"});
  EXPECT_EQ(file("1.1", "out.0"), "hello\n");
  EXPECT_EQ(file("1.1", "err.0"), "oops\n");
  host_->drop("1.1");
  EXPECT_EQ(text_of(SupervisorHost::folder_of(folder_, "1.1") / "out.0"), "hello\n");
}

TEST_F(SupervisorTest, TheEndTakesNoRoomThatWasNotTakenBefore) {
  const std::string folder = folder_.path().string();
  const fs::path state = folder_ / "state";
  ASSERT_TRUE(write_supervisor(folder, {7, 8, "space", 9, 10}));
  const auto bytes = fs::file_size(state);
  const EndRecord long_end{RunEnd::kExited, 3, 0, std::string(2 * kMaxEndMessageBytes, 'x')};
  ASSERT_TRUE(write_end(folder, long_end));
  ASSERT_TRUE(write_end(folder, {RunEnd::kLost, 0, 0, "later"}));
  EXPECT_EQ(fs::file_size(state), bytes);
  EXPECT_EQ(read_supervisor(folder)->guardian_ticks, 10U);
  EXPECT_EQ(read_end(folder)->exit_code, 3) << "the first one counts";
  EXPECT_EQ(read_end(folder)->message, std::string(kMaxEndMessageBytes, 'x'));
}

TEST_F(SupervisorTest, ARecordOfAnEarlierVersionGetsItsEndToo) {
  const std::string folder = folder_.path().string();
  ASSERT_TRUE(write_supervisor(folder, {7, 8, "space", 9, 10}));
  std::string text = text_of(folder_ / "state");
  text.resize(text.find_last_not_of('\0') + 2);  // it ended with its last zero
  std::ofstream(folder_ / "state", std::ios::binary) << text;
  ASSERT_TRUE(write_end(folder, {RunEnd::kTimedOut, 0, 9, "late"}));
  EXPECT_EQ(read_supervisor(folder)->pid, 7);
  EXPECT_EQ(read_end(folder)->kind, RunEnd::kTimedOut);
  EXPECT_EQ(read_end(folder)->message, "late");
}

TEST_F(SupervisorTest, TellsExitCodesAndSignals) {
  EXPECT_EQ(run(script("1.1", "exit 3")).exit_code, 3);
  const EndRecord killed = run(script("1.2", "kill -SEGV $$"));
  EXPECT_EQ(killed.kind, RunEnd::kSignalled);
  EXPECT_EQ(killed.signal, SIGSEGV);
}

TEST_F(SupervisorTest, LeavesNothingOfATaskThatPrintedNothing) {
  EXPECT_EQ(run(script("1.1", "true")).kind, RunEnd::kExited);
  host_->drop("1.1");
  EXPECT_TRUE(SupervisorHost::folder_of(folder_, "1.1").empty());
}

TEST_F(SupervisorTest, RunsInItsFolderWithItsEnvironmentAlone) {
  RunRecord record = script("1.1", "pwd; env | grep -v -e PWD -e SHLVL -e _= | sort");
  record.environment.emplace_back("COLOUR", "blue");
  record.working_dir = "/";
  EXPECT_EQ(run(record).exit_code, 0);
  EXPECT_EQ(file("1.1", "out.0"), format("/\nCOLOUR=blue\n{}={}\nPATH={}\n", kAttemptMark,
                                         marks_.back(), std::getenv("PATH")));
}

TEST_F(SupervisorTest, StartsWithOpenSignalsAndFourDescriptors) {
  const RunRecord record = script("1.1",
                                  "grep SigBlk /proc/self/status; "
                                  "grep -o 'SigIgn.*' /proc/self/status | grep -o '.......$'; "
                                  "ls /proc/self/fd | wc -l");
  EXPECT_EQ(run(record).exit_code, 0);
  // The fifth is the folder that ls reads. Of the ignored signals, those below 29.
  EXPECT_EQ(file("1.1", "out.0"), "SigBlk:\t0000000000000000\n0000000\n5\n");
}

TEST_F(SupervisorTest, RefusesWhatCannotStart) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer makes a fork of vfork, so the child cannot say why it ended";
#endif
  RunRecord record = script("1.1", "");
  record.command = {"no-such-program"};
  EndRecord end = run(record);
  EXPECT_EQ(end.kind, RunEnd::kRefused);
  EXPECT_THAT(end.message, testing::HasSubstr("no program 'no-such-program'"));
  record.attempt = "1.2";
  record.command = {"/"};
  EXPECT_THAT(run(record).message, testing::HasSubstr("cannot start '/': Permission denied"));
  record = script("1.3", "true");
  record.working_dir = "/no/such/folder";
  EXPECT_THAT(run(record).message,
              testing::HasSubstr("working directory '/no/such/folder': No such file"));
  EXPECT_TRUE(launched_.empty());
  host_->start(script("1.3", "true"));  // a folder that is there already
  until([&] { return ends_.size() == 3; });
}

TEST_F(SupervisorTest, WhatTheWorkerLacksIsNotTheTasksFault) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer makes a fork of vfork, so the child cannot say why it ended";
#endif
  RunRecord record = script("1.1", "true");
  record.cgroups = {"/no/such/cgroup"};
  EndRecord end = run(record);
  EXPECT_EQ(end.kind, RunEnd::kUnable) << end.message;
  EXPECT_THAT(end.message, testing::HasSubstr("cannot enter its cgroup"));
  // No room for its record, as far as the worker can tell.
  const fs::path attempts = folder_.path() / "attempts";
  fs::rename(attempts, folder_.path() / "aside");
  for (const char* name : {"1.2", "1.3", "1.4"}) {
    end = run(script(name, "true"));
    EXPECT_EQ(end.kind, RunEnd::kUnable) << end.message;
    EXPECT_THAT(end.message, testing::HasSubstr("the worker cannot write"));
  }
  const auto spare = fs::directory_iterator(folder_.path() / "spare");
  EXPECT_LE(std::distance(fs::begin(spare), fs::end(spare)), 2) << "tries leave nothing behind";
  EXPECT_TRUE(launched_.empty());
  fs::rename(folder_.path() / "aside", attempts);
  EXPECT_EQ(run(script("1.5", "true")).kind, RunEnd::kExited);
}

TEST_F(SupervisorTest, StopsTheWholeTreeAlsoWhatHasASessionOfItsOwn) {
  host_->start(script("1.1", "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; echo $$; wait"));
  const std::vector<pid_t> pids = printed_pids("1.1", 3);
  host_->stop("1.1", {RunEnd::kStopped, 60'000});
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kStopped);
  until_gone(pids);
}

TEST_F(SupervisorTest, KillsWhatDoesNotHeed) {
  host_->start(script("1.1", "trap '' TERM; echo ready; while :; do sleep 1000; done"));
  until_printed("1.1", "ready");
  host_->stop("1.1", {RunEnd::kStopped, 60'000});
  host_->stop("1.1", {RunEnd::kStopped, 0});  // a shorter grace counts
  const EndRecord end = end_of("1.1");
  EXPECT_EQ(end.kind, RunEnd::kStopped);
  EXPECT_EQ(end.signal, SIGKILL);
}

TEST_F(SupervisorTest, AStopThatComesBeforeTheLaunchCounts) {
  host_->start(script("1.1", "sleep 1000"));
  host_->stop("1.1", {RunEnd::kStopped, 60'000});
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kStopped);
}

TEST_F(SupervisorTest, StopsAtTheTimeLimit) {
  RunRecord record = script("1.1", "sleep 1000");
  record.timeout_ms = 50;
  const EndRecord end = run(record);
  EXPECT_EQ(end.kind, RunEnd::kTimedOut);
  EXPECT_THAT(end.message, testing::HasSubstr("time limit"));
}

TEST_F(SupervisorTest, TakesAlongWhatTheProgramLeftInTheBackground) {
  const EndRecord end = run(script("1.1", "setsid sleep 1000 & echo $!; exit 5"));
  EXPECT_EQ(end.kind, RunEnd::kExited);
  EXPECT_EQ(end.exit_code, 5);
  until_gone(printed_pids("1.1", 1));
}

TEST_F(SupervisorTest, StopsByItselfWhenTheLeaseEnds) {
  host_->set_lease({boottime_ns() + 120'000'000'000u});
  RunRecord bound = script("1.1", "echo ready; sleep 1000");
  RunRecord free = script("1.2", "echo ready; while [ ! -e go ]; do sleep 0.01; done");
  bound.grace_ms = free.grace_ms = 100;
  bound.lease_file = free.lease_file = host_->lease_file();
  free.lease_bound = false;
  host_->start(bound);
  host_->start(free);
  until_printed("1.1", "ready");
  until_printed("1.2", "ready");
  // The worker is gone (no host), the lease runs out: the supervisor sees to it alone. It looks
  // when the lease as it knew it ends, so a lease is never shortened: start another one under a
  // short one.
  host_->set_lease({boottime_ns() + 200'000'000u});
  RunRecord late = script("1.3", "sleep 1000");
  late.grace_ms = 100;
  late.lease_file = host_->lease_file();
  host_->start(late);
  EXPECT_EQ(end_of("1.3").kind, RunEnd::kLeaseLost);
  EXPECT_FALSE(ends_.contains("1.2"));
  std::ofstream(folder_ / "attempts" / "1.2" / "go");
  EXPECT_EQ(end_of("1.2").kind, RunEnd::kExited);
  host_->stop("1.1", {RunEnd::kStopped, 0});
  EXPECT_NE(end_of("1.1").kind, RunEnd::kExited);
}

TEST_F(SupervisorTest, WhatIsHeldStopsWhenTheHoldEndsAlsoWhenThatBecomesEarlier) {
  host_->set_lease({boottime_ns() + 200'000'000u, boottime_ns() + 600'000'000'000u});
  RunRecord held = script("1.1", "echo ready; sleep 1000");
  RunRecord bound = script("1.2", "sleep 1000");
  held.grace_ms = bound.grace_ms = 100;
  held.lease_file = bound.lease_file = host_->lease_file();
  held.lease_bound = false;
  held.hold_bound = true;
  host_->start(held);
  host_->start(bound);
  EXPECT_EQ(end_of("1.2").kind, RunEnd::kLeaseLost) << "the lease is over";
  until_printed("1.1", "ready");
  EXPECT_FALSE(ends_.contains("1.1"));
  restart();
  ASSERT_EQ(host_->recover().size(), 2U);
  host_->set_lease({boottime_ns() + 200'000'000u, boottime_ns() + 300'000'000u});
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kLeaseLost) << "a server that waits less long";
}

TEST_F(SupervisorTest, AnExtendedLeaseIsSeen) {
  host_->set_lease({boottime_ns() + 300'000'000u});
  RunRecord record = script("1.1", "echo ready; while [ ! -e go ]; do sleep 0.01; done");
  record.grace_ms = 100;
  record.lease_file = host_->lease_file();
  host_->start(record);
  host_->set_lease({boottime_ns() + 600'000'000'000u});
  until_printed("1.1", "ready");
  const std::uint64_t passed = boottime_ns() + 400'000'000u;
  until([&] { return boottime_ns() > passed; });
  EXPECT_FALSE(ends_.contains("1.1"));
  std::ofstream(folder_ / "attempts" / "1.1" / "go");
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kExited);
}

TEST_F(SupervisorTest, ANewWorkerFindsWhatRunsAndWhatHasEnded) {
  host_->start(script("1.1", "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo done"));
  host_->start(script("1.2", "exit 7"));
  until_printed("1.1", "ready");
  end_of("1.2");
  host_.reset();
  ends_.clear();
  restart();
  std::vector<RecoveredRun> found = host_->recover();
  std::ranges::sort(found, {}, [](const RecoveredRun& run) { return run.run.attempt; });
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].launched);
  EXPECT_FALSE(found[0].ended);
  ASSERT_TRUE(found[1].ended);
  EXPECT_EQ(found[1].ended->exit_code, 7);
  std::ofstream(folder_ / "attempts" / "1.1" / "go");
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kExited);
  EXPECT_EQ(file("1.1", "out.0"), "ready\ndone\n");
}

// Often before it could tell the worker that it is there: then the launcher must.
TEST_F(SupervisorTest, ASupervisorKilledAtItsVeryStartIsALoss) {
  for (int i = 1; i <= 30; ++i) {
    const std::string attempt = std::to_string(i) + ".1";
    host_->start(script(attempt, "sleep 1000"));
    const std::string folder = (folder_ / "attempts" / attempt).string();
    std::optional<SupervisorRecord> supervisor;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!(supervisor = read_supervisor(folder))) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
    }
    ::kill(supervisor->pid, SIGKILL);
    ASSERT_EQ(end_of(attempt).kind, RunEnd::kLost) << attempt;
  }
}

TEST_F(SupervisorTest, ARecordThatNobodyStartedIsALoss) {
  const fs::path folder = folder_ / "attempts" / "9.1";
  fs::create_directory(folder);
  ASSERT_TRUE(write_run(folder.string(), script("9.1", "true")));
  fs::create_directory(folder_ / "attempts" / "9.2");
  restart();
  const std::vector<RecoveredRun> found = host_->recover();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].launched);
  ASSERT_TRUE(found[0].ended);
  EXPECT_EQ(found[0].ended->kind, RunEnd::kLost);
  EXPECT_FALSE(fs::exists(folder_ / "attempts" / "9.2"));
}

TEST_F(SupervisorTest, ASecondWorkerIsKeptOut) {
  EXPECT_THROW(SupervisorHost(folder_, program_, milliseconds(0)), Error);
}

TEST_F(SupervisorTest, GoesOnAfterItsLauncherWasKilled) {
  host_->start(script("1.1", "echo $PPID; while [ ! -e go ]; do sleep 0.01; done"));
  const pid_t supervisor = printed_pids("1.1", 1)[0];
  const pid_t launcher = parent_of(parent_of(supervisor));
  ASSERT_GT(launcher, 1);
  ::kill(launcher, SIGKILL);
  until([&] { return process_start_ticks(launcher) == 0; });
  EXPECT_EQ(run(script("1.2", "exit 4")).exit_code, 4);
  std::ofstream(folder_ / "attempts" / "1.1" / "go");
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kExited);
}

TEST_F(SupervisorTest, OutputStaysWithinItsCeiling) {
  RunRecord record = script("1.1", "head -c 1000000 /dev/zero; echo end");
  record.segment_bytes = 10'000;
  record.stream_bytes = 50'000;
  EXPECT_EQ(run(record).exit_code, 0);
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "attempts" / "1.1")) {
    if (entry.path().stem() == "out") bytes += entry.file_size();
  }
  EXPECT_LE(bytes, 50'000u);
  EXPECT_THAT(file("1.1", "out.1000000"), testing::EndsWith("end\n"));
}

TEST_F(SupervisorTest, KeepsLinesOfProgress) {
  const EndRecord end = run(script("1.1",
                                   "echo '{\"progress\":0.5}' >&3; echo >&3; "
                                   "head -c 10000 /dev/zero >&3; echo >&3; "
                                   "printf '{\"progress\":1}\\nhalf a line' >&3"));
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(file("1.1", "progress"), "{\"progress\":1}\n");
  EXPECT_EQ(file("1.1", "metrics.0"), "{\"progress\":0.5}\n{\"progress\":1}\n");
}

TEST_F(SupervisorTest, ManyAtOnce) {
  constexpr int kTasks = 200;
  for (int i = 0; i < kTasks; ++i) host_->start(script(format("{}.1", i), "exit 1"));
  until([&] { return ends_.size() == kTasks; });
  EXPECT_EQ(launched_.size(), static_cast<std::size_t>(kTasks));
  for (const auto& [attempt, end] : ends_) EXPECT_EQ(end.exit_code, 1) << attempt;
}

}  // namespace
}  // namespace harmonics::inline in_worker
