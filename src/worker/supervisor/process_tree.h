// The processes below a process, and those that carry an attempt's mark.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace harmonics::inline in_worker {

/// Everything below `root`, in no order. A process that is forked meanwhile may be missing: ask
/// again until nothing is left.
std::vector<pid_t> descendants_of(pid_t root);

/// The processes whose parent is `parent`.
std::vector<pid_t> children_of(pid_t parent);

/// Sends `signal` to everything below `root`; how many there were.
int signal_tree(pid_t root, int signal);

/// The variable in a task's environment that marks all that it starts.
inline constexpr const char* kAttemptMark = "HARMONICS_ATTEMPT_MARK";

/// Rounds of killing before what does not go is given up on: a second or so.
inline constexpr int kKillRounds = 200;

/// Kills every process whose environment has `kAttemptMark` = `mark`, again and again until none is
/// left or `rounds` have passed: what a killed supervisor left behind. True when none is left.
bool kill_marked(const std::string& mark, int rounds);

}  // namespace harmonics::inline in_worker
