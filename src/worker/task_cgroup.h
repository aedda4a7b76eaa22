// The end of a task's cgroups (private to worker; the supervisor's side). The folders are the
// worker's work, see cgroups.h.
#pragma once

#include <string>
#include <vector>

namespace harmonics {

/// A task enters at most so many: one of v2, or two of v1.
inline constexpr std::size_t kMaxTaskCgroups = 4;

/// Whether the kernel killed one of its processes because their memory had reached the limit.
bool memory_ran_out(const std::vector<std::string>& cgroups);
/// Removes the folders, which nothing is in any more.
void remove_cgroups(const std::vector<std::string>& cgroups);

}  // namespace harmonics
