// The worker's side of its supervisors: starts them, hears of them, finds them again.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/base/descriptor.h>
#include <harmonics/cluster/task.h>

#include "run_record.h"

namespace harmonics::inline in_worker {

/// What became of an attempt.
struct SupervisorEvent {
  std::string attempt;
  std::optional<EndRecord> ended;  ///< Nothing: its program runs.
};

/// An attempt of an earlier life of this worker.
struct RecoveredRun {
  RunRecord run;
  bool launched = false;
  std::optional<EndRecord> ended;  ///< Nothing: it runs, or that it does not cannot be shown yet.
};

/// Owns the attempts' folders below `<folder>/attempts` and the launcher, the small process that
/// forks guardians. One thread, except `wake`. An attempt in here is known by its name ("17.2").
///
/// An attempt has ended when nothing of it runs any more, and not before: its supervisor or its
/// guardian has seen to that, or its cgroup is empty. Where both were killed and there is no
/// cgroup, what carries its mark is killed, and then it still cannot be shown that nothing else
/// runs: the attempt does not end until somebody removes its folder, or the machine (or container)
/// starts again. The log says so.
///
/// Nothing is synced to disk: the records must outlive this process and the supervisors, not the
/// machine (a worker comes back from a reboot with a new identity).
class SupervisorHost {
 public:
  /// `program` is harmonics-supervisor. Waits up to `patience` for the launcher of an earlier
  /// worker of this folder to end (it does as soon as that worker has). Throws an Error otherwise.
  /// Of attempts that are over, at most `keep_bytes` are kept.
  SupervisorHost(std::filesystem::path folder, std::filesystem::path program, Nanoseconds patience,
                 std::uint64_t keep_bytes = kDefaultKeptBytes);
  SupervisorHost(const SupervisorHost&) = delete;
  SupervisorHost& operator=(const SupervisorHost&) = delete;

  /// What earlier lives left, call once before all else: attempts that still run are attached to,
  /// those whose guardians are gone have their strays killed and count as lost.
  [[nodiscard]] std::vector<RecoveredRun> recover();

  /// Writes the record and has a supervisor started; `wait` tells how that went. An attempt whose
  /// record cannot be written ends as unable. `files` lie in `run.work` before it runs; their paths
  /// have passed `check_files`.
  void start(const RunRecord& run, std::span<const TaskFile> files = {});
  /// Asks the supervisor to stop the task; nothing happens if it is gone already.
  void stop(const std::string& attempt, const StopOrder& request);
  /// When the lease and the hold end, on CLOCK_BOOTTIME; every supervisor reads it.
  struct LeaseEnds {
    std::uint64_t lease_ns = 0;  ///< 0: there was none.
    std::uint64_t hold_ns = 0;
  };
  void set_lease(LeaseEnds ends);
  [[nodiscard]] LeaseEnds lease() const;
  /// The result has been handed on: the record goes. What the task printed and left is kept under
  /// `<folder>/kept`: of the newest `kMaxKeptAttempts`, and within `keep_bytes` (but always of the
  /// very newest).
  void drop(const std::string& attempt);

  /// Waits until something happened, `wake` was called or `timeout` has passed.
  [[nodiscard]] std::vector<SupervisorEvent> wait(Nanoseconds timeout);
  /// Ends a `wait`. Any thread.
  void wake();

  [[nodiscard]] std::filesystem::path lease_file() const { return folder_ / "lease"; }
  /// Where an attempt's files are, running, ended or kept; empty when it has none.
  [[nodiscard]] static std::filesystem::path folder_of(const std::filesystem::path& folder,
                                                       const std::string& attempt);

  static constexpr std::size_t kMaxKeptAttempts = 2000;
  static constexpr std::uint64_t kDefaultKeptBytes = std::uint64_t{64} << 30;
  /// Folders that wait to be used again.
  static constexpr std::size_t kMaxSpareFolders = 256;

 private:
  struct Watch {
    Descriptor process;  ///< The guardian (or the supervisor); none: its launch is awaited.
    /// How often it was looked at since nobody is left to watch and it could not be shown that
    /// all of it is gone.
    int unsettled = 0;
  };

  void take_lock(Nanoseconds patience);
  void await(const Descriptor& descriptor) const;
  void start_launcher();
  void hear_launcher();
  void on_notice(const std::string& text);
  void launcher_died();
  bool attach(const std::string& attempt, pid_t pid, std::uint64_t start_ticks);
  bool attach_recorded(const std::string& attempt);
  /// `otherwise` is how it ended if nobody left word.
  void finish(const std::string& attempt, bool shown_gone,
              EndRecord otherwise = {RunEnd::kLost, 0, 0,
                                     "its supervisor and its guardian were killed"});
  void settle_again();
  std::optional<EndRecord> settle(const std::string& attempt, bool shown_gone, EndRecord otherwise);
  bool make_attempt_folder(const std::string& folder, const RunRecord& run,
                           std::span<const TaskFile> files);
  [[nodiscard]] std::string attempt_folder(const std::string& attempt) const;

  std::filesystem::path folder_;
  std::filesystem::path program_;
  Descriptor lock_;
  Descriptor lease_;
  Descriptor events_;  ///< epoll
  Descriptor wake_;    ///< eventfd
  Descriptor launcher_;
  std::map<std::string, Watch> watches_;
  std::map<int, std::string> by_descriptor_;
  std::size_t unsettled_ = 0;                           ///< Of `watches_`.
  std::chrono::steady_clock::time_point settled_at_{};  ///< When they were last looked at.
  std::vector<SupervisorEvent> news_;
  struct Kept {
    std::string attempt;
    std::uint64_t bytes = 0;
  };
  void keep(std::string attempt);

  std::deque<Kept> kept_;  ///< Oldest first.
  std::uint64_t kept_bytes_ = 0;
  const std::uint64_t keep_bytes_;
  std::vector<std::string> spares_;  ///< Paths.
  std::uint64_t spare_names_ = 0;
};

}  // namespace harmonics::inline in_worker
