// What an earlier life of the worker left on disk, and what is kept of attempts that are over.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include <harmonics/base/log.h>

#include "supervisor_host.h"

namespace harmonics {
namespace {

namespace fs = std::filesystem;

/// Whether anything but records lies in the folder: output, metrics, what the task made there.
bool holds_output(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name != "run" && name != "supervisor" && name != "stop" && name != "end") return true;
  }
  return false;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) found.push_back(entry.path());
  }
  return found;
}

}  // namespace

std::vector<RecoveredRun> SupervisorHost::recover() {
  std::vector<RecoveredRun> found;
  for (const fs::path& folder : folders_in(folder_ / "attempts")) {
    const std::string attempt = folder.filename().string();
    auto run = read_run(folder.string());
    if (!run || run->attempt != attempt) {
      // Its record was never whole, so it was never started.
      log_warn("worker", "removing '{}': it holds no whole record", folder.string());
      std::error_code error;
      fs::remove_all(folder, error);
      continue;
    }
    RecoveredRun recovered{std::move(*run), true, std::nullopt};
    const auto supervisor = read_supervisor(folder.string());
    const bool alive = supervisor && supervisor->boot == boot_id() && attach(attempt, *supervisor);
    if (!alive) {
      recovered.launched = supervisor.has_value();
      recovered.ended =
          settle(attempt, supervisor ? "its supervisor was killed while the worker was away"
                                     : "the worker ended before it was started");
    }
    found.push_back(std::move(recovered));
  }
  std::vector<std::pair<fs::file_time_type, std::string>> kept;
  for (const fs::path& folder : folders_in(folder_ / "kept")) {
    std::error_code error;
    kept.emplace_back(fs::last_write_time(folder, error), folder.filename().string());
  }
  std::ranges::sort(kept);
  for (auto& [when, name] : kept) kept_.push_back(std::move(name));
  forget_oldest();
  return found;
}

void SupervisorHost::drop(const std::string& attempt) {
  const fs::path folder = folder_ / "attempts" / attempt;
  std::error_code error;
  if (!holds_output(folder)) {
    for (const char* name : {"run", "supervisor", "stop", "end"}) {
      ::unlink((folder / name).c_str());
    }
    ::rmdir(folder.c_str());
    return;
  }
  fs::rename(folder, folder_ / "kept" / attempt, error);
  if (error) {
    log_warn("worker", "cannot keep the output of attempt {}: {}", attempt, error.message());
    fs::remove_all(folder, error);
    return;
  }
  kept_.push_back(attempt);
  forget_oldest();
}

void SupervisorHost::forget_oldest() {
  if (kept_.size() <= kMaxKeptAttempts) return;
  const auto extra = static_cast<std::ptrdiff_t>(kept_.size() - kMaxKeptAttempts);
  for (auto name = kept_.begin(); name != kept_.begin() + extra; ++name) {
    std::error_code error;
    fs::remove_all(folder_ / "kept" / *name, error);
  }
  kept_.erase(kept_.begin(), kept_.begin() + extra);
}

}  // namespace harmonics
