// Limits that the kernel keeps for a task: cgroups, where this process may make them (private to
// worker).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace harmonics {

/// What a task may use; 0: no limit.
struct TaskLimits {
  std::uint32_t cpus = 0;
  std::uint64_t memory_mb = 0;
};

/// Where the kernel's files are; others in tests.
struct CgroupPlaces {
  std::filesystem::path mount = "/sys/fs/cgroup";
  std::filesystem::path own = "/proc/self/cgroup";
  /// A folder of cgroup v2 that an administrator has handed to this worker; empty: look for one.
  std::filesystem::path given{};
};

/// Looks once, at construction. With v1 tasks get folders below this process's own in `memory` and
/// `cpu`. With v2 they get one beside this process's own if that is called `kOwnCgroup` (the
/// systemd unit does so), or below the given one: v2 wants no process in a folder with limits below
/// it. One thread.
class Cgroups {
 public:
  static constexpr const char* kOwnCgroup = "harmonics-worker";

  /// `mark` tells this worker's folders from another's. A given folder that cannot be used is an
  /// Error; none found is not.
  explicit Cgroups(std::string mark, const CgroupPlaces& places = {});

  /// Why there are no limits; empty: there are.
  [[nodiscard]] const std::string& lacking() const { return lacking_; }
  /// Folders that the task must enter: none if it has no limits or there are none here. An Error
  /// when the kernel refuses.
  [[nodiscard]] std::vector<std::string> make(const std::string& attempt,
                                              const TaskLimits& limits) const;

 private:
  void find_v1(const CgroupPlaces& places, const std::string& own);
  void find_v2(const CgroupPlaces& places, const std::string& own);
  void make_in(const std::string& name, const TaskLimits& limits,
               std::vector<std::string>& folders) const;
  [[nodiscard]] std::string use_v2(const std::filesystem::path& folder);

  std::string mark_;
  std::string lacking_;
  std::filesystem::path v2_;      ///< Folders are made below it; empty: there is none.
  std::filesystem::path memory_;  ///< Of v1.
  std::filesystem::path cpu_;
};

}  // namespace harmonics
