// Which other processes of this machine compute: what a measurement shared the cores with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace harmonics::inline in_place {

/// The most processes that are looked at.
inline constexpr std::size_t kMaxSeenProcesses = 65'536;
/// Other processes disturb a measurement that together keep more than this share of the cores busy.
inline constexpr double kBusyCoresShare = 0.25;
/// One that kept less of a core busy is not named.
inline constexpr double kLeastNamedCores = 0.05;

/// What a process has computed so far, and all its threads.
struct ProcessTime {
  std::int64_t id = 0;
  /// Clock ticks after the machine's start; with `id` it tells a process from a later one.
  std::int64_t began = 0;
  std::string name;
  double cpu_s = 0;
};

/// Those that this one can see, itself not: in a container only the container's. Reads
/// `root`/proc, which tests replace; nothing where there is none. Any thread.
[[nodiscard]] std::vector<ProcessTime> process_times(const std::filesystem::path& root = "/");

/// A process and the cores that it kept busy in a while.
struct BusyProcess {
  std::int64_t id = 0;
  std::string name;
  double cores = 0;
};
/// Those that computed between two looks, most first; one that began meanwhile counts whole.
[[nodiscard]] std::vector<BusyProcess> busy_processes(const std::vector<ProcessTime>& before,
                                                      const std::vector<ProcessTime>& after,
                                                      double seconds);
/// The busiest of them in words, "python3 (process 12) 0.9, ...": up to three, of those that are
/// named; empty: none is.
[[nodiscard]] std::string busy_names(const std::vector<BusyProcess>& busy);

}  // namespace harmonics::inline in_place
