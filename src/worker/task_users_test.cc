// Tasks as another user: who may, what they get, and that nothing of the worker is theirs.
#include "task_users.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "supervisor/supervisor_testing.h"
#include "task_folders.h"
#include "task_run.h"

namespace harmonics::inline in_worker {
namespace {

using testing::_;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

constexpr const char* kUser = "nobody";

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

bool can_open(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
}

StartMessage start_of(TaskSpec spec) {
  StartMessage start;
  start.id = {TaskId{17}, AttemptNumber{2}};
  start.spec = std::make_shared<const TaskSpec>(std::move(spec));
  start.user = "ann";
  return start;
}

TEST(TaskRunAsUser, HasTheHomeAndNameOfItsAccount) {
  const TaskAccount account{"ann", {1001, 100, {100, 27}}, "/people/ann", "/bin/bash"};
  TaskSurroundings around;
  around.environment = {{"PATH", "/bin"},        {"HOME", "/worker"},      {"USER", "root"},
                        {"XDG_STATE_HOME", "x"}, {"SUDO_USER", "someone"}, {"LANG", "C"}};
  TaskSpec spec{.name = "a", .command = {"true"}};
  const RunRecord run = make_run(start_of(spec), around, &account, "/tasks/17.2");
  EXPECT_EQ(run.user, account.credentials);
  EXPECT_EQ(run.work, "/tasks/17.2");
  EXPECT_EQ(working_folder(run, "/attempt"), "/tasks/17.2");
  EXPECT_THAT(run.environment,
              AllOf(Contains(Pair("HOME", "/people/ann")), Contains(Pair("USER", "ann")),
                    Contains(Pair("LOGNAME", "ann")), Contains(Pair("LANG", "C")),
                    Not(Contains(Key("XDG_STATE_HOME"))), Not(Contains(Key("SUDO_USER")))));
  spec.env = {{"HOME", "/data"}};
  spec.working_dir = "/data";
  const RunRecord elsewhere = make_run(start_of(spec), around, &account, "/tasks/17.2");
  EXPECT_THAT(elsewhere.environment, Contains(Pair("HOME", "/data")));
  EXPECT_EQ(working_folder(elsewhere, "/attempt"), "/data");
  spec.working_dir = "lib";
  spec.files = std::vector<TaskFile>{{"lib/a", "", false}};
  EXPECT_EQ(working_folder(make_run(start_of(spec), around, &account, "/tasks/17.2"), "/attempt"),
            "/tasks/17.2/lib");
  const RunRecord own = make_run(start_of(spec), around);
  EXPECT_FALSE(own.user);
  EXPECT_EQ(working_folder(own, "/attempt"), "/attempt/work/lib");
  EXPECT_THAT(own.environment, Contains(Pair("XDG_STATE_HOME", "x")));
}

TEST(TaskRunAsUser, RecordsComeBack) {
  const TemporaryFolder folder;
  RunRecord run;
  run.attempt = "17.2";
  run.command = {"true"};
  run.artifacts.patterns = {"out"};
  for (const bool worked : {false, true}) {
    for (const bool owned : {false, true}) {
      run.work = worked ? "/tasks/17.2" : "";
      run.user.reset();
      if (owned) run.user = TaskCredentials{1001, 100, {100, 27}};
      ASSERT_TRUE(write_run(folder.path().string(), run));
      const auto back = read_run(folder.path().string());
      ASSERT_TRUE(back);
      EXPECT_EQ(back->work, run.work);
      EXPECT_EQ(back->user, run.user);
      EXPECT_EQ(back->artifacts.patterns, run.artifacts.patterns);
    }
  }
}

TEST(TaskUsers, WithoutThePrivilegeItIsRefused) {
  EXPECT_FALSE(TaskUsers("").apart());
  if (::geteuid() == 0) GTEST_SKIP() << "skipped: this is root, who may";
  EXPECT_THAT(error_of([] { TaskUsers users(kUser); }),
              AllOf(HasSubstr("--task-user nobody"), HasSubstr("lacks CAP_SETUID")));
}

class AsAnother : public SupervisorTest {
 protected:
  void SetUp() override {
    if (!lacking_capabilities().empty()) {
      GTEST_SKIP() << "skipped: only root can run tasks as another user";
    }
    account_ = TaskUsers(kUser).account_of("somebody").value();
    ::chmod(place_.path().c_str(), S_IRWXU | S_IXGRP | S_IXOTH);
    folders_ = TaskFolders(place_, "mark", {});
  }

  RunRecord as_user(const std::string& attempt, const std::string& text) {
    RunRecord run = script(attempt, text);
    run.user = account_.credentials;
    run.work = folders_.of(attempt);
    return run;
  }

  TemporaryFolder place_;
  TaskAccount account_;
  TaskFolders folders_;
};

TEST_F(AsAnother, UnknownUsersAndRootAreRefused) {
  EXPECT_THAT(error_of([] { TaskUsers users("no-such-user"); }),
              HasSubstr("--task-user no-such-user: this machine has no account"));
  EXPECT_THAT(error_of([] { TaskUsers users("root"); }), HasSubstr("'root', which is root"));
  const TaskUsers owners(TaskUsers::kOwner);
  EXPECT_EQ(owners.account_of(kUser)->credentials.uid, account_.credentials.uid);
  EXPECT_THAT(error_of([&] { static_cast<void>(owners.account_of("no-such-user")); }),
              HasSubstr("no account 'no-such-user'"));
  EXPECT_THAT(error_of([&] { static_cast<void>(owners.account_of("root")); }), HasSubstr("root"));
}

TEST_F(AsAnother, SecretsThatAreOpenAreFound) {
  const TaskUsers users(kUser);
  const fs::path file = place_.write("token", "secret");
  ::chmod(file.c_str(), 0644);
  EXPECT_THAT(error_of([&] { users.check_closed({file}); }), HasSubstr("is not closed"));
  ::chmod(file.c_str(), 0600);
  users.check_closed({file, folder_ / "not" / "there"});
}

TEST_F(AsAnother, AThreadReadsWithTheRightsOfTheUserForAWhile) {
  const fs::path secret = folder_.write("secret", "x");
  const fs::path open = place_.write("open", "x");
  ::chmod(open.c_str(), 0644);
  const auto groups = [] {
    std::vector<gid_t> all(static_cast<std::size_t>(::getgroups(0, nullptr)));
    ::getgroups(static_cast<int>(all.size()), all.data());
    return all;
  };
  const std::vector<gid_t> before = groups();
  {
    const AsUser rights(&account_.credentials);
    ASSERT_TRUE(rights.good());
    EXPECT_FALSE(can_open(secret));
    EXPECT_TRUE(can_open(open));
    EXPECT_EQ(groups(), account_.credentials.groups);
    bool other = false;
    std::thread([&] { other = can_open(secret); }).join();
    {
      const TaskCredentials self{0, 0, {}};
      const AsUser again(&self);
      EXPECT_TRUE(can_open(secret));
    }
    EXPECT_FALSE(can_open(secret));
  }
  EXPECT_TRUE(can_open(secret));
  EXPECT_EQ(groups(), before);
  EXPECT_TRUE(lacking_capabilities().empty());
}

TEST_F(AsAnother, ATaskIsThatUserAndNothingMore) {
  const fs::path secret = folder_.write("secret", "x");
  const EndRecord end = run(
      as_user("1.1",
              "id -u; id -g; id -G; grep -c '^Cap[^B].*:\t0*$' /proc/self/status;"
              "grep NoNewPrivs /proc/self/status; cat " +
                  secret.string() + " 2>/dev/null || echo closed; ls " + place_.path().string() +
                  "/harmonics-mark 2>/dev/null || echo unlisted; pwd;"
                  "echo mine > file; stat -c %u:%a . file; echo again > /dev/stdout"));
  EXPECT_EQ(end.kind, RunEnd::kExited) << end.message;
  const std::string id = std::to_string(account_.credentials.uid);
  const std::string group = std::to_string(account_.credentials.gid);
  EXPECT_EQ(file("1.1", "out.0"),
            id + "\n" + group + "\n" + group + "\n4\nNoNewPrivs:\t1\nclosed\n" + "unlisted\n" +
                folders_.of("1.1") + "\n" + id + ":700\n" + id + ":644\nagain\n");
}

TEST_F(AsAnother, FilesBelongToTheUserAndKeepTheirBits) {
  RunRecord record = as_user("1.1", "./sub/run.sh; stat -c '%u %a' sub sub/run.sh data");
  const std::vector<TaskFile> files = {{"sub/run.sh", "#!/bin/sh\necho ran\n", true},
                                       {"data", "x", false}};
  host_->start(record, files);
  EXPECT_EQ(end_of("1.1").exit_code, 0);
  const std::string id = std::to_string(account_.credentials.uid);
  EXPECT_EQ(file("1.1", "out.0"), "ran\n" + id + " 700\n" + id + " 700\n" + id + " 600\n");
}

TEST_F(AsAnother, ArtifactsAreReadWithTheRightsOfTheUser) {
  const fs::path secret = folder_.write("secret", "secret");
  const std::string folder = folder_.path().string();
  RunRecord record = as_user("1.1", "mkdir out; echo good > out/good; ln -s " + secret.string() +
                                        " out/link; ln -s " + folder + " linked; mkfifo out/pipe");
  record.artifacts = {{"out", "linked/secret"}, 1 << 20};
  const EndRecord end = run(record);
  const std::string place = (folder_ / "attempts" / "1.1").string();
  ASSERT_EQ(list_artifacts(place).size(), 1U) << end.message;
  EXPECT_EQ(text_of(*find_artifact(place, "out/good")), "good\n");
  EXPECT_THAT(end.message, AllOf(HasSubstr("'out/link' is no regular file"),
                                 HasSubstr("'out/pipe' is no regular file"),
                                 HasSubstr("nothing matches 'linked/secret'")));
  // A working directory of its own choice, or a file that is closed to it, opens nothing.
  RunRecord elsewhere = as_user("2.1", "true");
  elsewhere.work.clear();
  elsewhere.working_dir = folder;
  elsewhere.artifacts = {{"secret"}, 1 << 20};
  EXPECT_EQ(run(elsewhere).kind, RunEnd::kRefused);
  const std::string kept = (folder_ / "kept").string();
  EXPECT_THAT(keep_artifacts({{"secret"}, 1 << 20}, folder, kept, &account_.credentials),
              HasSubstr("nothing matches"));
}

TEST_F(AsAnother, KillsReachItAndItGoesWithItsSupervisor) {
  host_->start(as_user("1.1", "trap '' TERM; setsid sleep 1000 & echo $$; echo $!; wait; wait"));
  const std::vector<pid_t> stopped = printed_pids("1.1", 2);
  host_->stop("1.1", {RunEnd::kStopped, 50});
  EXPECT_EQ(end_of("1.1").kind, RunEnd::kStopped);
  until_gone(stopped);
  RunRecord limited = as_user("2.1", "trap '' TERM; while true; do sleep 1; done");
  limited.timeout_ms = 50;
  limited.grace_ms = 50;
  EXPECT_EQ(run(limited).kind, RunEnd::kTimedOut);
  host_->start(as_user("3.1", "setsid sleep 1000 & echo $$; echo $!; wait"));
  const std::vector<pid_t> orphans = printed_pids("3.1", 2);
  ::kill(parent_of(orphans[0]), SIGKILL);
  EXPECT_EQ(end_of("3.1").kind, RunEnd::kLost);
  until_gone(orphans);
}

TEST_F(AsAnother, WhatIsLeftGoesAndNoLinkIsFollowed) {
  const fs::path precious = folder_.write("precious/file", "x");
  ::chmod(precious.parent_path().c_str(), 0777);
  run(as_user("1.1", "mkdir a; ln -s " + precious.parent_path().string() + " a/link; chmod 0 a"));
  run(as_user("2.1", "true"));
  EXPECT_TRUE(fs::exists(folders_.of("1.1")));
  const TaskFolders again(place_, "mark", {"2.1"});
  EXPECT_FALSE(fs::exists(folders_.of("1.1")));
  EXPECT_TRUE(fs::exists(folders_.of("2.1")));
  EXPECT_TRUE(fs::exists(precious));
  again.remove("2.1");
  again.remove("9.9");
  EXPECT_FALSE(fs::exists(folders_.of("2.1")));
}

TEST_F(AsAnother, AFolderOfSomebodyElseIsNotUsed) {
  fs::remove_all(folders_.of(""));
  folders_.ensure();
  EXPECT_TRUE(fs::is_directory(folders_.of("")));
  ASSERT_EQ(::lchown(folders_.of("").c_str(), account_.credentials.uid, 0), 0);
  EXPECT_THAT(error_of([&] { folders_.ensure(); }), HasSubstr("is no folder of"));
  EXPECT_THAT(error_of([&] { TaskFolders(place_, "mark", {}); }), HasSubstr("is no folder of"));
  fs::create_directory_symlink(folder_.path(), place_ / "harmonics-link");
  EXPECT_THAT(error_of([&] { TaskFolders(place_, "link", {}); }), HasSubstr("is no folder of"));
  const TaskFolders closed(folder_, "mark", {});
  EXPECT_THAT(error_of([&] { closed.check_reach(account_); }), HasSubstr("cannot be entered"));
}

}  // namespace
}  // namespace harmonics::inline in_worker
