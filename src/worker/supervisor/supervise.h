// One attempt's supervisor: starts the task, keeps its output, enforces its limits, and writes down
// how it ended. A process of its own, so that tasks outlive the worker.
#pragma once

#include <string>

#include "run_record.h"

namespace harmonics::inline in_worker {

/// What a supervisor inherits from the launcher.
struct LauncherEnds {
  /// Datagrams to the worker; closed once the worker knows (or is gone).
  int socket = -1;
  /// Held until the supervisor's record is written, so that whoever gets the lock after the
  /// launcher knows of every attempt whether it has started.
  int lock = -1;
  /// `process_space()`.
  std::string space{};
};

/// What the supervisor tells the worker once, as text: "<attempt> <guardian's pid> <its start
/// ticks> <1|0>", the last being whether the task's program runs. 0: nothing of it does, nor will;
/// `end` says why. If there is no `end`: with a pid that is not 0 nothing was started, for reasons
/// of the worker's own; with 0 the guardian is gone, and what it guarded with it.
inline constexpr std::size_t kMaxLaunchNotice = 256;
std::string launch_notice(const std::string& folder, const SupervisorRecord& self, bool launched);

/// Supervises the attempt in `folder` (see run_record.h) until its whole process tree is gone, then
/// ends the calling process, which must be a fresh child with one thread. Signals: USR1 reads
/// `stop`; TERM ends the task as lost, and so does the death of the guardian, its parent, which is
/// in `record` (see guardian.h). If this process is killed the task's first process dies with it
/// (its parent-death signal), and the guardian kills the rest.
[[noreturn]] void supervise(const std::string& folder, const LauncherEnds& ends,
                            SupervisorRecord record);

/// The program `harmonics-supervisor`: reads folders from the socket, one datagram each, and forks
/// a guardian for every one, until the other end closes. One whose supervisor or guardian was
/// killed, perhaps before it could tell the worker of itself, is told of by the launcher ("0" as
/// the last word) when nothing of it is left. The exit code.
int launch_supervisors(LauncherEnds ends);

}  // namespace harmonics::inline in_worker
