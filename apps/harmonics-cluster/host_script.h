// What 'harmonics up' tells a host: text for sh, sent over SSH on standard input, so that no secret
// stands in a list of processes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <harmonics/options/cluster_commands.h>

namespace harmonics::inline in_cluster_program {

/// A file that goes along, text; only its owner may read it there.
struct HostFile {
  std::string name;
  std::string text;
};

struct HostOrder {
  UpWish wish = UpWish::kUp;
  std::string worker;
  std::string program;
  std::vector<std::string> flags{};  ///< Of the worker; "@FOLDER@" in one is where the files lie.
  std::vector<HostFile> files{};
};

/// The script. It writes one line "harmonics-up STATE PID", STATE being started, running, differs
/// (runs with other flags), stopped, absent, foreign (not started by 'up'), missing (no such
/// program) or failed, and more to standard error.
[[nodiscard]] std::string host_script(const HostOrder& order);

/// State and pid of that line; empty where there is none.
[[nodiscard]] std::pair<std::string, std::string> told_state(const std::string& output);

}  // namespace harmonics::inline in_cluster_program
