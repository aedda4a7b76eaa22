// For the tests of supervisors: a worker's side of them, in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <harmonics/base/error.h>

#include <temporary_folder_testing.h>
#include <tree_testing.h>

#include "process_tree.h"
#include "supervisor_host.h"

namespace harmonics::inline in_worker {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr seconds kPatience(60);

inline std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline bool lives(pid_t pid) { return process_start_ticks(pid) != 0; }

/// The fourth field of its status line (its name must have no blank).
inline pid_t parent_of(pid_t pid) {
  std::istringstream status(text_of(format("/proc/{}/stat", pid)));
  std::string id, name, state;
  pid_t parent = 0;
  status >> id >> name >> state >> parent;
  return parent;
}

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() {
    program_ = binary_folder() / "harmonics-supervisor";
    restart();
    static_cast<void>(host_->recover());
  }
  ~SupervisorTest() override {
    // Whatever a failed test left running carries its mark.
    for (const std::string& mark : marks_) kill_marked(mark, 1000);
    for (const pid_t pid : strays_) ::kill(pid, SIGKILL);
    host_.reset();
  }

  void restart() {
    host_.reset();
    host_ = std::make_unique<SupervisorHost>(folder_, program_, kPatience);
  }

  RunRecord script(const std::string& attempt, const std::string& text) {
    RunRecord run;
    run.attempt = attempt;
    run.command = {"sh", "-c", text};
    const std::string mark = folder_.path().filename().string() + "/" + attempt;
    marks_.push_back(mark);
    run.environment = {{"PATH", std::getenv("PATH")}, {kAttemptMark, mark}};
    run.grace_ms = 60'000;
    return run;
  }

  /// Waits until `done` says so; fails the test when it takes too long.
  void until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "waited too long";
      if (host_ == nullptr) {
        ::poll(nullptr, 0, 1);
        continue;
      }
      for (SupervisorEvent& event : host_->wait(milliseconds(10))) {
        if (event.ended) {
          EXPECT_FALSE(ends_.contains(event.attempt)) << "ended twice";
          ends_[event.attempt] = *event.ended;
        } else {
          launched_.push_back(event.attempt);
        }
      }
    }
  }
  EndRecord end_of(const std::string& attempt) {
    until([&] { return ends_.contains(attempt); });
    return ends_[attempt];
  }
  EndRecord run(const RunRecord& record) {
    host_->start(record);
    return end_of(record.attempt);
  }
  std::string file(const std::string& attempt, const std::string& name) const {
    return text_of(folder_ / "attempts" / attempt / name);
  }
  void until_printed(const std::string& attempt, const std::string& text) {
    until([&] { return file(attempt, "out.0").find(text) != std::string::npos; });
  }
  /// The numbers that a script printed, one per line.
  std::vector<pid_t> printed_pids(const std::string& attempt, std::size_t count) {
    std::vector<pid_t> pids;
    until([&] {
      pids.clear();
      std::istringstream lines(file(attempt, "out.0"));
      for (std::string line; std::getline(lines, line);) pids.push_back(std::stoi(line));
      return pids.size() == count;
    });
    return pids;
  }
  void until_gone(const std::vector<pid_t>& pids) {
    until([&] { return std::ranges::all_of(pids, [](pid_t pid) { return !lives(pid); }); });
  }

  TemporaryFolder folder_;
  fs::path program_;
  std::unique_ptr<SupervisorHost> host_;
  std::vector<std::string> marks_;
  std::vector<std::string> launched_;
  std::map<std::string, EndRecord> ends_;
  std::vector<pid_t> strays_;  ///< Without a mark: killed at the end, if they still live.
};

}  // namespace harmonics::inline in_worker
