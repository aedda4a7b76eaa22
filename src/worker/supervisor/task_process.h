// Starting the task's own program (private to the supervisor).
#pragma once

#include <sys/types.h>

#include <string>

#include "run_record.h"

namespace harmonics::inline in_worker {

/// Our ends of the task's pipes; -1 when closed.
struct TaskPipes {
  int out = -1;
  int err = -1;
  int progress = -1;
};

/// The descriptor on which a task reports progress; HARMONICS_PROGRESS_FD names it.
inline constexpr int kProgressDescriptor = 3;

struct StartedTask {
  pid_t pid = -1;
  TaskPipes pipes;
  std::string failure;  ///< Why it did not start; empty when it did.
  bool unable = false;  ///< The failure is the machine's, not the task's.
};

/// Starts the program in a session of its own, with an empty signal mask, and with a parent-death
/// signal: it is killed when the calling process dies.
StartedTask start_task(const RunRecord& run, const std::string& folder);

}  // namespace harmonics::inline in_worker
