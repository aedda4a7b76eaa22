// `harmonics` itself, as the tasks that come with it run it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace harmonics::inline in_cluster_program {

/// How long the other processes of a gang may take to start.
inline constexpr const char* kFirstContactSeconds = "300";

/// "worker-1=gpu-1:45123,worker-2=gpu-2:41001", as a worker tells a gang: the hosts, in that order.
[[nodiscard]] std::vector<std::string> gang_hosts(const std::string& peers);

/// Says on standard error which command line is going to run. `words` come after `harmonics`, here
/// as below.
void announce(const std::vector<std::string>& words);
/// Goes on as `harmonics` in the same process.
[[noreturn]] void become_front(const std::vector<std::string>& words);
/// Runs it with its standard output in a file; its exit code.
[[nodiscard]] int run_front(const std::vector<std::string>& words,
                            const std::filesystem::path& file);

}  // namespace harmonics::inline in_cluster_program
