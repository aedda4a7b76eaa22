// What the tasks that come with harmonics have in common: they become `harmonics` itself.
#pragma once

#include <string>
#include <vector>

namespace harmonics::inline in_cluster_program {

/// How long the other processes of a gang may take to start.
inline constexpr const char* kFirstContactSeconds = "300";

/// "worker-1=gpu-1:45123,worker-2=gpu-2:41001", as a worker tells a gang: the hosts, in that order.
[[nodiscard]] std::vector<std::string> gang_hosts(const std::string& peers);

/// Says on standard error which command line is going to run; `words` come after `harmonics`.
void announce(const std::vector<std::string>& words);

}  // namespace harmonics::inline in_cluster_program
