// What the kernel does for a task: keeps it together, so that all of it can be killed, and within
// its limits. Cgroups, where this process may make them (private to worker).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace harmonics::inline in_worker {

/// What a task may use; 0: no limit.
struct TaskLimits {
  std::uint32_t cpus = 0;
  std::uint64_t memory_mb = 0;
};

/// Where the kernel's files are; others in tests.
struct CgroupPlaces {
  std::filesystem::path mount = "/sys/fs/cgroup";
  std::filesystem::path own = "/proc/self/cgroup";
  /// A folder of cgroup v2 that an administrator has handed to this worker; `kNoCgroups`: make
  /// none; empty: look for one.
  std::filesystem::path given{};
};

/// Looks once, at construction.
///
/// Limits: with v1 tasks get folders below this process's own in `memory` and `cpu`. With v2 they
/// get one beside this process's own if that is called `kOwnCgroup` (the systemd unit does so), or
/// below the given one: v2 wants no process in a folder with limits below it.
///
/// Every task, with limits or without, gets a folder of v2, in which it can be killed as a whole:
/// the one with its limits, or else one below this process's own (also where v2 is mounted beside
/// v1). One thread.
class Cgroups {
 public:
  static constexpr const char* kOwnCgroup = "harmonics-worker";
  static constexpr const char* kNoCgroups = "none";

  /// `mark` tells this worker's folders from another's. A given folder that cannot be used is an
  /// Error; none found is not.
  explicit Cgroups(std::string mark, const CgroupPlaces& places = {});

  /// Why there are no limits; empty: there are.
  [[nodiscard]] const std::string& lacking() const { return lacking_; }
  /// Whether every task gets a folder of v2.
  [[nodiscard]] bool holds_tasks() const { return !v2_.empty() || !hold_.empty(); }
  /// Folders that the task must enter: none if there are none here. An Error when the kernel
  /// refuses.
  [[nodiscard]] std::vector<std::string> make(const std::string& attempt,
                                              const TaskLimits& limits) const;
  /// Attempts that have folders here, of this life of the worker or an earlier one; by attempt.
  [[nodiscard]] std::map<std::string, std::vector<std::string>> leftover() const;

 private:
  void find_v1(const CgroupPlaces& places, const std::string& own);
  void find_v2(const CgroupPlaces& places, const std::string& own);
  void make_in(const std::string& name, const TaskLimits& limits,
               std::vector<std::string>& folders) const;
  void find_hold(const CgroupPlaces& places, const std::string& own);
  [[nodiscard]] std::string use_v2(const std::filesystem::path& folder);

  std::string mark_;
  std::string lacking_;
  std::filesystem::path v2_;      ///< Folders with limits are made below it; empty: there is none.
  std::filesystem::path hold_;    ///< Folders without; empty: in v2_, or there is none.
  std::filesystem::path memory_;  ///< Of v1.
  std::filesystem::path cpu_;
};

}  // namespace harmonics::inline in_worker
