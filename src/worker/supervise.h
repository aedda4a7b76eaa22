// One attempt's supervisor: starts the task, keeps its output, enforces its limits, and writes down
// how it ended. A process of its own, so that tasks outlive the worker.
#pragma once

#include <string>

#include "run_record.h"

namespace harmonics {

/// Descriptors that a supervisor inherits from the launcher.
struct LauncherEnds {
  /// Datagrams to the worker; closed once the worker knows (or is gone).
  int socket = -1;
  /// Held until the supervisor's record is written, so that whoever gets the lock after the
  /// launcher knows of every attempt whether it has started.
  int lock = -1;
};

/// What the supervisor tells the worker once, as text: "<attempt> <pid> <start ticks> <1|0>", the
/// last being whether the task's program runs (0: `end` says why not).
inline constexpr std::size_t kMaxLaunchNotice = 256;
std::string launch_notice(const std::string& folder, const SupervisorRecord& self, bool launched);

/// Supervises the attempt in `folder` (see run_record.h) until its whole process tree is gone, then
/// ends the calling process, which must be a fresh child with one thread. Signals: USR1 reads
/// `stop`; TERM ends the task as lost. If this process is killed the task's first process dies with
/// it (its parent-death signal), and the worker kills the rest by their mark.
[[noreturn]] void supervise(const std::string& folder, LauncherEnds ends);

/// The program `harmonics-supervisor`: reads folders from the socket, one datagram each, and forks
/// a supervisor for every one, until the other end closes. One that was killed, perhaps before it
/// could tell the worker of itself, is told of by the launcher ("0" as the last word). The exit
/// code.
int launch_supervisors(LauncherEnds ends);

}  // namespace harmonics
