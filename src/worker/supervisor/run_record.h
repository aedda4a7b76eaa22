// What a supervisor needs to know to run one attempt, and what it leaves behind: the files of an
// attempt's folder. Standard library and POSIX alone, since the supervisor is a program that must
// start in microseconds.
//
//   run         all of RunRecord; written by the worker before the folder gets the attempt's name
//   state       first who supervises and who guards it (SupervisorRecord), from when on the attempt
//               counts as started; then how it ended (EndRecord), when nothing of it runs any more.
//               One write each; half of one counts as none. Zeros behind them keep the room for the
//               end, so that a disk which fills while the task runs does not take its result
//   stop        the worker's wish that it ends (a StopOrder), announced by SIGUSR1
//   out.N err.N what the task printed, from byte N of that stream on
//   progress    the last line of progress that the task reported; metrics.N all of them
//   work        a folder: the files that came with the task, in which it then runs
//   artifacts   a folder: the files that the task leaves for its user
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "artifacts.h"
#include "credentials.h"

namespace harmonics::inline in_worker {

inline constexpr std::size_t kMaxRunRecordBytes = 4 << 20;
inline constexpr std::size_t kMaxEndMessageBytes = 4096;
inline constexpr const char* kWorkFolder = "work";

/// One attempt, ready to run.
struct RunRecord {
  std::string attempt;  ///< "17.2"; also in the task's environment, by which strays are found.
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  ///< All of it.
  std::string working_dir;  ///< Empty: the attempt's own folder.
  /// A folder of its own, below that one unless it begins with '/'; `working_dir` is within it.
  std::string work;
  std::uint64_t timeout_ms = 0;   ///< 0: no limit.
  std::uint64_t grace_ms = 5000;  ///< From TERM to KILL.
  bool lease_bound = true;        ///< Stops by itself when the worker's lease ends.
  bool hold_bound = false;        ///< Not then, but when its hold ends.
  /// Eight bytes each: when the lease and the hold end, on CLOCK_BOOTTIME. Empty: none.
  std::string lease_file;
  std::uint64_t segment_bytes = 4 << 20;  ///< Of one file of output.
  std::uint64_t stream_bytes = 64 << 20;  ///< Kept of one stream; the oldest goes first.
  std::vector<std::string> cgroups;       ///< Folders that the task enters, made with their limits.
  std::uint64_t memory_mb = 0;            ///< The limit in there, for people.
  /// For the worker that reads the record after a restart: kept as it is.
  std::string note;
  ArtifactWish artifacts;
  std::optional<TaskCredentials> user;  ///< Nothing: that of the supervisor.
};

/// Who supervises, and who guards that one: a process is known by pid and start time, as long as
/// the numbers mean the same (`process_space`).
struct SupervisorRecord {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::string space;
  pid_t guardian = 0;  ///< 0 in records of earlier versions, which had none.
  std::uint64_t guardian_ticks = 0;
};

/// kRefused: never started, and that is the task's (no such program); kUnable: that is the
/// worker's.
enum class RunEnd {
  kExited,
  kSignalled,
  kTimedOut,
  kStopped,
  kLeaseLost,
  kLost,
  kRefused,
  kUnable
};

struct EndRecord {
  RunEnd kind = RunEnd::kExited;
  int exit_code = 0;
  int signal = 0;
  std::string message;
  // Of all its processes: time on cores together, the most memory that one of them had. 0: unknown.
  std::uint64_t cpu_ms = 0;
  std::uint64_t peak_memory_kb = 0;
};

struct StopOrder {
  RunEnd as = RunEnd::kStopped;
  std::uint64_t grace_ms = 0;
};

/// Where `run.work`, which is not empty, lies for the attempt in `folder`.
std::string work_folder(const RunRecord& run, const std::string& folder);
/// Where the task of the attempt in `folder` runs.
std::string working_folder(const RunRecord& run, const std::string& folder);

// Not synced: what runs does not survive the machine either. Reading gives nothing when the file is
// not there or broken. Folders, and the files `run` and `state` in them, are used again and again,
// since making new ones is what costs most (ext4 looks for inodes that were not freed lately).
bool write_run(const std::string& folder, const RunRecord& run);
std::optional<RunRecord> read_run(const std::string& folder);
/// The first record. False (and errno) when there is no room for it and the end.
bool write_supervisor(const std::string& folder, const SupervisorRecord& supervisor);
std::optional<SupervisorRecord> read_supervisor(const std::string& folder);
bool write_stop(const std::string& folder, const StopOrder& stop);
std::optional<StopOrder> read_stop(const std::string& folder);
/// Without its message where there is no room for that.
bool write_end(const std::string& folder, const EndRecord& end);
std::optional<EndRecord> read_end(const std::string& folder);

/// The text of a small file; nothing when it cannot be read or is longer than `limit`.
std::optional<std::string> read_small_file(const std::string& path, std::size_t limit);
/// False (and errno) when not all of it could be written.
bool write_all(int descriptor, std::string_view text);
/// False (and errno) when it cannot be written.
bool replace_file(const std::string& path, const std::string& text);

/// When a process started, in clock ticks since boot; 0 when there is no such process (or it is a
/// zombie, which runs nothing).
std::uint64_t process_start_ticks(pid_t pid);
/// The kernel's id of this boot.
std::string boot_id();
/// What the numbers of processes hold for: this boot, and this life of the container or machine
/// (when process 1 started). Where it is another one, what ran before is gone.
std::string process_space();
/// Whether a record of `space` is of this one (earlier versions wrote the boot's id alone).
bool is_this_space(const std::string& space);
/// Now, on the clock that leases are measured by: it counts while the machine sleeps.
std::uint64_t boottime_ns();

}  // namespace harmonics::inline in_worker
