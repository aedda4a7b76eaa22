#include "process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include <harmonics/base/number_text.h>

#include "run_record.h"

namespace harmonics::inline in_worker {
namespace {

constexpr std::size_t kMaxEnvironmentBytes = 4 << 20;

template <typename Visit>
void each_process(Visit visit) {
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return;
  while (const dirent* entry = ::readdir(folder)) {
    if (const auto pid = number_from<pid_t>(entry->d_name)) visit(*pid);
  }
  ::closedir(folder);
}

/// 0 when there is no such process.
pid_t parent_of(pid_t pid) {
  const auto text = read_small_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return 0;
  // "pid (name) state parent": the name may hold brackets and blanks.
  const std::size_t bracket = text->rfind(')');
  if (bracket == text->npos || bracket + 4 >= text->size()) return 0;
  return leading_number<pid_t>(text->substr(bracket + 4)).value_or(0);
}

bool carries(pid_t pid, const std::string& entry) {
  const auto text =
      read_small_file("/proc/" + std::to_string(pid) + "/environ", kMaxEnvironmentBytes);
  if (!text) return false;
  const std::string_view all(*text);
  for (std::size_t at = all.find(entry); at != all.npos; at = all.find(entry, at + 1)) {
    const bool begins = at == 0 || all[at - 1] == '\0';
    const std::size_t end = at + entry.size();
    if (begins && (end == all.size() || all[end] == '\0')) return true;
  }
  return false;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t root) {
  std::vector<std::pair<pid_t, pid_t>> parents;  // parent, child
  each_process([&](pid_t pid) { parents.emplace_back(parent_of(pid), pid); });
  std::sort(parents.begin(), parents.end());
  std::vector<pid_t> found;
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    auto at = std::lower_bound(parents.begin(), parents.end(), std::pair<pid_t, pid_t>(parent, 0));
    for (; at != parents.end() && at->first == parent; ++at) {
      found.push_back(at->second);
      open.push_back(at->second);
    }
  }
  return found;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  each_process([&](pid_t pid) {
    if (parent_of(pid) == parent) found.push_back(pid);
  });
  return found;
}

int signal_tree(pid_t root, int signal) {
  int count = 0;
  for (const pid_t pid : descendants_of(root)) {
    ::kill(pid, signal);
    ++count;
  }
  return count;
}

bool kill_marked(const std::string& mark, int rounds) {
  const std::string entry = std::string(kAttemptMark) + "=" + mark;
  for (int round = 0; round < rounds; ++round) {
    int found = 0;
    each_process([&](pid_t pid) {
      if (pid == ::getpid() || !carries(pid, entry)) return;
      ::kill(pid, SIGKILL);
      ++found;
    });
    if (found == 0) return true;
  }
  return false;
}

}  // namespace harmonics::inline in_worker
