#include "cgroups.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <system_error>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>

#include "supervisor/run_record.h"
#include "supervisor/task_cgroup.h"

namespace harmonics::inline in_worker {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFile = 64 << 10;
constexpr std::uint64_t kPeriodUs = 100'000;

/// Empty when it was written, else why not. The kernel's files exist; they are never made.
std::string put(const fs::path& file, const std::string& text) {
  const Descriptor opened(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  const bool done = opened && ::write(opened.get(), text.data(), text.size()) ==
                                  static_cast<ssize_t>(text.size());
  return done ? "" : format("'{}': {}", file.string(), std::strerror(errno));
}

void must_put(const fs::path& file, const std::string& text) {
  const std::string reason = put(file, text);
  if (!reason.empty()) fail(ErrorCode::kInternal, "no cgroup limit for the task: {}", reason);
}

fs::path make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) {
    fail(ErrorCode::kInternal, "no cgroup for the task: '{}': {}", folder.string(),
         error.message());
  }
  return folder;
}

/// The path behind "N:CONTROLLERS:" in /proc/self/cgroup, if there is one.
std::string path_of(const std::string& own, const std::string& controller) {
  std::istringstream lines(own);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (names.find("," + controller + ",") != names.npos) return line.substr(second + 1);
  }
  return {};
}

bool lists(const std::string& words, std::string_view wanted) {
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

bool may_make_folders(const fs::path& folder) { return ::access(folder.c_str(), W_OK | X_OK) == 0; }

}  // namespace

Cgroups::Cgroups(std::string mark, const CgroupPlaces& places) : mark_(std::move(mark)) {
  if (places.given == kNoCgroups) {
    lacking_ = "--cgroup none";
    return;
  }
  if (!places.given.empty()) {
    lacking_ = use_v2(places.given);
    if (lacking_.empty()) return;
    fail(ErrorCode::kFailedPrecondition, "--cgroup {}: {}", places.given.string(), lacking_);
  }
  const std::string own = read_small_file(places.own.string(), kMaxFile).value_or("");
  find_v1(places, own);
  if (memory_.empty() || cpu_.empty()) find_v2(places, own);
  if (v2_.empty()) find_hold(places, own);
}

// A folder without controllers may lie below one that has processes.
void Cgroups::find_hold(const CgroupPlaces& places, const std::string& own) {
  const std::string path = path_of(own, "");
  for (const fs::path& root : {places.mount / "unified", places.mount}) {
    for (const std::string& below : {path, std::string("/")}) {
      const fs::path folder = (fs::path(root.string() + below) / "").parent_path();
      std::error_code error;
      if (!fs::exists(folder / "cgroup.controllers", error) || !may_make_folders(folder)) continue;
      // Only the kernel knows whether it lets us.
      const fs::path trial = folder / format("harmonics-{}-trial-{}", mark_, ::getpid());
      fs::create_directory(trial, error);
      if (error) continue;
      const bool holds = fs::exists(trial / "cgroup.events", error);
      fs::remove(trial, error);
      if (!holds) continue;
      hold_ = folder;
      return;
    }
  }
}

void Cgroups::find_v1(const CgroupPlaces& places, const std::string& own) {
  for (auto& [controller, folder] :
       {std::pair<const char*, fs::path&>("memory", memory_), {"cpu", cpu_}}) {
    const fs::path root = places.mount / controller;
    // In a container the path may be one of the machine's, which is not to be seen here.
    for (const fs::path& candidate :
         {fs::path(root.string() + path_of(own, controller)), fs::path(root)}) {
      std::error_code error;
      if (!fs::exists(candidate / "cgroup.procs", error) || !may_make_folders(candidate)) continue;
      folder = candidate;
      break;
    }
  }
  if (memory_.empty() || cpu_.empty()) {
    memory_.clear();
    cpu_.clear();
  }
}

void Cgroups::find_v2(const CgroupPlaces& places, const std::string& own) {
  const fs::path self(places.mount.string() + path_of(own, ""));
  if (self.filename() != kOwnCgroup) {
    lacking_ = format(
        "this process is in no cgroup called '{}' beside which it could make others (start it by "
        "its systemd unit, or hand it a folder with --cgroup)",
        kOwnCgroup);
    return;
  }
  lacking_ = use_v2(self.parent_path());
}

std::string Cgroups::use_v2(const fs::path& folder) {
  const auto offered = read_small_file((folder / "cgroup.controllers").string(), kMaxFile);
  if (!offered) return format("'{}' is no folder of cgroup v2", folder.string());
  if (!lists(*offered, "memory") || !lists(*offered, "cpu")) {
    return format("'{}' has not the controllers cpu and memory", folder.string());
  }
  if (!may_make_folders(folder)) {
    return format("'{}': no folders may be made there", folder.string());
  }
  const std::string refused = put(folder / "cgroup.subtree_control", "+cpu +memory");
  if (!refused.empty()) return refused;
  v2_ = folder;
  return {};
}

std::vector<std::string> Cgroups::make(const std::string& attempt, const TaskLimits& limits) const {
  std::vector<std::string> folders;
  const std::string name = format("harmonics-{}-{}", mark_, attempt);
  try {
    if (!hold_.empty()) folders.push_back(make_folder(hold_ / name).string());
    const bool limited = limits.cpus > 0 || limits.memory_mb > 0;
    if (lacking_.empty() && (limited || !v2_.empty())) make_in(name, limits, folders);
  } catch (const Error&) {
    remove_cgroups(folders);
    throw;
  }
  return folders;
}

std::map<std::string, std::vector<std::string>> Cgroups::leftover() const {
  std::map<std::string, std::vector<std::string>> found;
  const std::string prefix = format("harmonics-{}-", mark_);
  for (const fs::path& root : {v2_, hold_, memory_, cpu_}) {
    std::error_code error;
    if (root.empty()) continue;
    for (const auto& entry : fs::directory_iterator(root, error)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(prefix)) {
        found[name.substr(prefix.size())].push_back(entry.path().string());
      }
    }
  }
  return found;
}

void Cgroups::make_in(const std::string& name, const TaskLimits& limits,
                      std::vector<std::string>& folders) const {
  const auto made = [&folders](const fs::path& folder) {
    folders.push_back(make_folder(folder).string());
    return folder;
  };
  const std::string bytes = std::to_string(limits.memory_mb << 20);
  if (!v2_.empty()) {
    const fs::path folder = made(v2_ / name);
    if (limits.cpus > 0) {
      must_put(folder / "cpu.max", format("{} {}", limits.cpus * kPeriodUs, kPeriodUs));
    }
    if (limits.memory_mb > 0) {
      must_put(folder / "memory.max", bytes);
      static_cast<void>(put(folder / "memory.swap.max", "0"));  // not there without swap
      static_cast<void>(put(folder / "memory.oom.group", "1"));
    }
    return;
  }
  if (limits.memory_mb > 0) {
    const fs::path folder = made(memory_ / name);
    must_put(folder / "memory.limit_in_bytes", bytes);
    static_cast<void>(put(folder / "memory.memsw.limit_in_bytes", bytes));  // likewise
  }
  if (limits.cpus > 0) {
    const fs::path folder = made(cpu_ / name);
    must_put(folder / "cpu.cfs_period_us", std::to_string(kPeriodUs));
    must_put(folder / "cpu.cfs_quota_us", std::to_string(limits.cpus * kPeriodUs));
  }
}

}  // namespace harmonics::inline in_worker
