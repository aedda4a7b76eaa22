// A task's cgroups from within and to their end (private to worker; the supervisor's side). The
// folders are the worker's work, see cgroups.h.
#pragma once

#include <string>
#include <vector>

namespace harmonics::inline in_worker {

/// A task enters at most so many: one of v2, or two of v1.
inline constexpr std::size_t kMaxTaskCgroups = 4;

/// Whether the kernel killed one of its processes because their memory had reached the limit.
bool memory_ran_out(const std::vector<std::string>& cgroups);
/// Kills all that is in them or below, at once with v2; whether nothing was left in any of them. A
/// folder that is gone has nothing left. What is being killed takes a moment: ask again.
bool kill_cgroups(const std::vector<std::string>& cgroups);
/// Removes the folders, which nothing is in any more, with what the task made below them.
void remove_cgroups(const std::vector<std::string>& cgroups);
/// The folder of v2, into which a process can be born; empty: there is none.
std::string unified_cgroup(const std::vector<std::string>& cgroups);

}  // namespace harmonics::inline in_worker
