#include <harmonics/place/busy_processes.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

#include <harmonics/base/format.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_place {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// A process of a made-up machine.
void write_process(const TemporaryFolder& root, int id, const std::string& name,
                   const std::array<int, 3>& user_system_began) {
  const auto& [user, system, began] = user_system_began;
  root.write(format("proc/{}/stat", id),
             format("{} ({}) S 1 1 1 0 -1 4194304 9 9 9 9 {} {} 7 7 20 0 1 0 {} 9 9\n", id, name,
                    user, system, began));
}

TEST(BusyProcesses, AreReadFromTheSystemsFiles) {
  const TemporaryFolder root;
  EXPECT_THAT(process_times(root), IsEmpty());
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  write_process(root, 12, "odd) (name 3 4", {100, 20, 5000});
  root.write("proc/13/stat", "13 (cut off) S 1\n");
  root.write("proc/uptime", "1 2\n");
  write_process(root, ::getpid(), "this", {100, 100, 1});
  const std::vector<ProcessTime> all = process_times(root);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].id, 12);
  EXPECT_EQ(all[0].name, "odd) (name 3 4");
  EXPECT_EQ(all[0].began, 5000);
  EXPECT_DOUBLE_EQ(all[0].cpu_s, 120 / ticks);
}

TEST(BusyProcesses, AreThoseThatComputedMeanwhile) {
  const std::vector<ProcessTime> before = {
      {1, 10, "init", 5}, {2, 10, "idle", 9}, {3, 10, "old", 70}, {5, 10, "gone", 1}};
  const std::vector<ProcessTime> after = {
      {1, 10, "init", 5.01}, {2, 10, "idle", 9}, {3, 900, "new", 4}, {4, 800, "busy", 18}};
  const std::vector<BusyProcess> busy = busy_processes(before, after, 20);
  ASSERT_THAT(busy, SizeIs(3));
  EXPECT_EQ(busy[0].id, 4);
  EXPECT_DOUBLE_EQ(busy[0].cores, 0.9);
  EXPECT_EQ(busy_names(busy), "busy (process 4) 0.9, new (process 3) 0.2");
  EXPECT_THAT(busy_processes(before, after, 0), IsEmpty());
  EXPECT_EQ(busy_names({}), "");
}

// A process that spins until it is killed, and whatever ends the test.
class Spinner {
 public:
  Spinner() : id_(::fork()) {
    if (id_ == 0) {
      ::alarm(60);
      for (std::atomic<unsigned> turns = 0;; ++turns) {
      }
    }
  }
  ~Spinner() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;
  [[nodiscard]] int id() const { return id_; }

 private:
  int id_;
};

TEST(BusyProcesses, OneOfThisMachineIsFoundByItsWork) {
  const std::vector<ProcessTime> before = process_times();
  const Spinner spinner;
  const auto found = [&](const BusyProcess& one) { return one.id == spinner.id(); };
  std::vector<BusyProcess> busy;
  do {
    busy = busy_processes(before, process_times(), 1);
  } while (std::ranges::none_of(busy, found));
  EXPECT_GT(std::ranges::find_if(busy, found)->cores, 0);
}

}  // namespace
}  // namespace harmonics::inline in_place
