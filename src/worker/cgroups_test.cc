// Against folders that look like the kernel's; the real ones are in tests/cluster/limits_test.py.
#include "cgroups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include <harmonics/base/error.h>

#include <temporary_folder_testing.h>

#include "supervisor/task_cgroup.h"

namespace harmonics::inline in_worker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CgroupsTest : public testing::Test {
 protected:
  CgroupsTest() {
    places_ = {root_ / "mount", root_ / "own", {}};
    fs::create_directories(places_.mount);
  }

  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  static std::string text_of(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  /// The kernel fills a new folder with files; here they must be there before.
  static void prepare(const fs::path& folder, std::initializer_list<const char*> files) {
    for (const char* file : files) write(folder / file, "");
  }

  TemporaryFolder root_;
  CgroupPlaces places_;
};

TEST_F(CgroupsTest, TheFirstVersionHasAFolderForEachController) {
  write(places_.own, "9:memory:/box\n3:cpu,cpuacct:/elsewhere\n0::/\n");
  write(places_.mount / "memory/box/cgroup.procs", "");
  write(places_.mount / "cpu/cgroup.procs", "");
  prepare(places_.mount / "memory/box/harmonics-ab12-17.1",
          {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"});
  prepare(places_.mount / "cpu/harmonics-ab12-17.1", {"cpu.cfs_period_us", "cpu.cfs_quota_us"});
  const Cgroups cgroups("ab12", places_);
  EXPECT_EQ(cgroups.lacking(), "");
  EXPECT_TRUE(cgroups.make("17.1", {}).empty()) << "no limits, no folders";
  const auto made = cgroups.make("17.1", {3, 100});
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(text_of(fs::path(made[0]) / "memory.limit_in_bytes"), "104857600");
  EXPECT_EQ(text_of(fs::path(made[1]) / "cpu.cfs_quota_us"), "300000");
}

TEST_F(CgroupsTest, TheSecondVersionHasOneFolderBesideTheWorkers) {
  write(places_.own, "0::/a.service/harmonics-worker\n");
  const fs::path service = places_.mount / "a.service";
  write(service / "cgroup.controllers", "cpuset cpu io memory pids\n");
  write(service / "cgroup.subtree_control", "");
  prepare(service / "harmonics-ab12-17.1",
          {"cpu.max", "memory.max", "memory.swap.max", "memory.oom.group"});
  const Cgroups cgroups("ab12", places_);
  EXPECT_EQ(cgroups.lacking(), "");
  EXPECT_EQ(text_of(service / "cgroup.subtree_control"), "+cpu +memory");
  const auto made = cgroups.make("17.1", {2, 64});
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(text_of(fs::path(made[0]) / "cpu.max"), "200000 100000");
  EXPECT_EQ(text_of(fs::path(made[0]) / "memory.max"), "67108864");
}

TEST_F(CgroupsTest, WhereNoneCanBeMadeThatIsSaid) {
  write(places_.own, "0::/user.slice/session-1.scope\n");
  const Cgroups none("ab12", places_);
  EXPECT_THAT(none.lacking(), HasSubstr("--cgroup"));
  EXPECT_TRUE(none.make("17.1", {1, 1}).empty());
  places_.given = root_ / "absent";
  EXPECT_THROW(Cgroups("ab12", places_), Error);
  write(root_ / "given/cgroup.controllers", "pids\n");
  places_.given = root_ / "given";
  try {
    const Cgroups wrong("ab12", places_);
    ADD_FAILURE() << "took a folder without controllers";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cpu and memory"));
  }
}

TEST_F(CgroupsTest, WhatTheKernelRefusesIsAnErrorAndLeavesNothing) {
  write(places_.own, "9:memory:/\n3:cpu:/\n");
  write(places_.mount / "memory/cgroup.procs", "");
  write(places_.mount / "cpu/cgroup.procs", "");
  const Cgroups cgroups("ab12", places_);
  EXPECT_THROW(static_cast<void>(cgroups.make("17.1", {1, 1})), Error);
  EXPECT_FALSE(fs::exists(places_.mount / "memory/harmonics-ab12-17.1"));
}

TEST_F(CgroupsTest, KillsForMemoryAreNoticed) {
  const std::string v1 = root_ / "v1", v2 = root_ / "v2", calm = root_ / "calm";
  write(root_ / "v1/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  write(root_ / "v2/memory.events", "low 0\noom 3\noom_kill 2\n");
  write(root_ / "calm/memory.events", "low 0\noom 0\noom_kill 0\n");
  EXPECT_TRUE(memory_ran_out({calm, v1}));
  EXPECT_TRUE(memory_ran_out({v2}));
  EXPECT_FALSE(memory_ran_out({calm, root_ / "gone"}));
}

}  // namespace
}  // namespace harmonics::inline in_worker
