#include "task_cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>

#include <cstdlib>
#include <string_view>

#include <harmonics/base/descriptor.h>

#include "run_record.h"

namespace harmonics::inline in_worker {
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

/// No task nests deeper; what does keeps its folders.
constexpr int kMaxDepth = 32;
constexpr std::size_t kMaxProcs = 16 << 20;

template <typename Visit>
void each_folder_below(const std::string& folder, Visit visit, int depth = 0) {
  DIR* entries = depth < kMaxDepth ? ::opendir(folder.c_str()) : nullptr;
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    const std::string below = folder + "/" + entry->d_name;
    each_folder_below(below, visit, depth + 1);
    visit(below);
  }
  ::closedir(entries);
}

/// How many processes are in this very folder; each is killed.
int kill_members(const std::string& folder) {
  const auto text = read_small_file(folder + "/cgroup.procs", kMaxProcs);
  if (!text) return 0;
  int count = 0;
  const char* end = text->data() + text->size();
  for (const char* at = text->data(); at < end;) {
    pid_t pid = 0;
    const auto read = std::from_chars(at, end, pid);
    // 0: a process that this one cannot see.
    if (read.ec == std::errc() && pid > 0) ::kill(pid, SIGKILL);
    if (read.ec == std::errc()) ++count;
    at = read.ptr < end ? read.ptr + 1 : end;
  }
  return count;
}

/// Whether the kernel took it: version 2, since Linux 5.14.
bool kill_at_once(const std::string& folder) {
  const Descriptor file(::open((folder + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), "1", 1) == 1;
}

bool kill_one(const std::string& folder) {
  if (kill_at_once(folder)) {
    const auto events = read_small_file(folder + "/cgroup.events", kMaxEvents);
    return !events || events->find("populated 0") != events->npos;
  }
  int found = kill_members(folder);
  each_folder_below(folder, [&found](const std::string& below) { found += kill_members(below); });
  return found == 0;
}

}  // namespace

bool kill_cgroups(const std::vector<std::string>& cgroups) {
  bool empty = true;
  for (const std::string& folder : cgroups) empty = kill_one(folder) && empty;
  return empty;
}

std::string unified_cgroup(const std::vector<std::string>& cgroups) {
  for (const std::string& folder : cgroups) {
    if (::access((folder + "/cgroup.events").c_str(), F_OK) == 0) return folder;
  }
  return {};
}

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
  for (const std::string& folder : cgroups) {
    if (::rmdir(folder.c_str()) == 0) continue;
    each_folder_below(folder, [](const std::string& below) { ::rmdir(below.c_str()); });
    ::rmdir(folder.c_str());
  }
}

}  // namespace harmonics::inline in_worker
