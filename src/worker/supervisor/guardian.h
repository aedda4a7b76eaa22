// The second guardian of an attempt (private to the supervisor's program).
//
//   launcher -> guardian -> supervisor -> the task's program -> whatever it starts
//
// Guardian and supervisor both take in the orphans below them, so that nothing that a task starts
// leaves their tree, whatever environment, session or process group it gives itself. Each watches
// the other: if the supervisor is killed the guardian kills what it left; if the guardian is killed
// the supervisor ends the task. Either way nothing of the attempt is left when both are gone.
#pragma once

#include <signal.h>

#include <string>

#include "supervise.h"

namespace harmonics::inline in_worker {

/// What a supervisor gets when its guardian has died.
inline constexpr int kGuardianGone = SIGUSR2;

/// Blocks what guardian and supervisor wait for, and answers which signals those are.
sigset_t block_supervision_signals();

/// Kills everything below the calling process, and what is in the attempt's cgroups, again and
/// again until nothing is left. Takes as long as that takes: what does not die (a process that
/// hangs in the kernel) keeps its attempt from ending.
void kill_all_below(const std::string& folder);

/// Forks the supervisor of the attempt in `folder`, and stays until all of it is gone; hands on to
/// it the signals that it gets itself. Ends the calling process, which must be a fresh child with
/// one thread: with the supervisor's own code, or with 1 after having written that it was killed.
[[noreturn]] void guard(const std::string& folder, const LauncherEnds& ends);

}  // namespace harmonics::inline in_worker
