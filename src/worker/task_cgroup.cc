#include "task_cgroup.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "run_record.h"

namespace harmonics {
namespace {

constexpr std::size_t kMaxEvents = 16 << 10;

/// The number behind "oom_kill " at the beginning of a line.
long kills_in(const std::string& events) {
  constexpr std::string_view kKey = "oom_kill ";
  for (std::size_t at = events.find(kKey); at != events.npos; at = events.find(kKey, at + 1)) {
    if (at == 0 || events[at - 1] == '\n') {
      return std::strtol(events.c_str() + at + kKey.size(), nullptr, 10);
    }
  }
  return 0;
}

}  // namespace

bool memory_ran_out(const std::vector<std::string>& cgroups) {
  for (const std::string& folder : cgroups) {
    for (const char* file : {"/memory.events", "/memory.oom_control"}) {  // v2, v1
      const auto events = read_small_file(folder + file, kMaxEvents);
      if (events && kills_in(*events) > 0) return true;
    }
  }
  return false;
}

void remove_cgroups(const std::vector<std::string>& cgroups) {
  for (const std::string& folder : cgroups) ::rmdir(folder.c_str());
}

}  // namespace harmonics
