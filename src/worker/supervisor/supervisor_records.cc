// What an earlier life of the worker left on disk, and what is kept of attempts that are over.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <harmonics/base/log.h>

#include "placed_files.h"
#include "supervisor_host.h"

namespace harmonics::inline in_worker {
namespace {

namespace fs = std::filesystem;

/// Whether anything but records lies in the folder: output, metrics, what the task made there.
bool holds_output(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name != "run" && name != "state" && name != "stop") return true;
  }
  return false;
}

/// Entries that are counted of one attempt; a folder with more counts for what they have.
constexpr int kMaxCounted = 100'000;

std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(folder, error);
  for (int n = 0; !error && entry != fs::recursive_directory_iterator() && n < kMaxCounted; ++n) {
    std::error_code gone;
    const bool file = fs::is_regular_file(entry->symlink_status(gone));
    const std::uint64_t size = file ? entry->file_size(gone) : 0;
    if (!gone) bytes += size;
    entry.increment(error);
  }
  return bytes;
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
    if (!attach_recorded(attempt)) {
      recovered.launched = read_supervisor(folder.string()).has_value();
      recovered.ended =
          settle(attempt, false,
                 {RunEnd::kLost, 0, 0,
                  recovered.launched ? "its supervisor was killed while the worker was away"
                                     : "the worker ended before it was started"});
      if (!recovered.ended) {
        watches_[attempt] = {};
        finish(attempt, false);
      }
    }
    found.push_back(std::move(recovered));
  }
  std::error_code cleared;
  for (const fs::path& folder : folders_in(folder_ / "spare")) fs::remove_all(folder, cleared);
  std::vector<std::pair<fs::file_time_type, std::string>> kept;
  for (const fs::path& folder : folders_in(folder_ / "kept")) {
    std::error_code error;
    kept.emplace_back(fs::last_write_time(folder, error), folder.filename().string());
  }
  std::ranges::sort(kept);
  for (auto& [when, name] : kept) keep(std::move(name));
  return found;
}

// The name is given last: a folder with an attempt's name holds a whole record.
bool SupervisorHost::make_attempt_folder(const std::string& folder, const RunRecord& run,
                                         std::span<const TaskFile> files) {
  std::string fresh = (folder_ / "spare" / std::to_string(++spare_names_)).string();
  if (!spares_.empty()) {
    fresh = std::move(spares_.back());
    spares_.pop_back();
  } else if (::mkdir(fresh.c_str(), S_IRWXU) != 0) {
    return false;
  }
  const bool there = ::access(folder.c_str(), F_OK) == 0;
  const std::string work = work_folder(run, fresh);
  const bool placed = run.work.empty() || place_files(work, files, run.user ? &*run.user : nullptr);
  if (!there && placed && write_run(fresh, run) && ::rename(fresh.c_str(), folder.c_str()) == 0) {
    return true;
  }
  const int reason = there ? EEXIST : errno;
  std::error_code error;
  // One outside the attempt's folder goes when the attempt has ended.
  if (!run.work.empty() && !run.work.starts_with('/')) fs::remove_all(work, error);
  spares_.push_back(std::move(fresh));  // for the next one: there is none more than before
  errno = reason;
  return false;
}

void SupervisorHost::drop(const std::string& attempt) {
  const fs::path folder = folder_ / "attempts" / attempt;
  std::error_code error;
  if (!holds_output(folder)) {
    ::unlink((folder / "stop").c_str());
    const std::string spare = (folder_ / "spare" / std::to_string(++spare_names_)).string();
    if (spares_.size() < kMaxSpareFolders && ::rename(folder.c_str(), spare.c_str()) == 0) {
      spares_.push_back(spare);
    } else {
      fs::remove_all(folder, error);
    }
    return;
  }
  fs::rename(folder, folder_ / "kept" / attempt, error);
  if (error) {
    log_warn("worker", "cannot keep the output of attempt {}: {}", attempt, error.message());
    fs::remove_all(folder, error);
    return;
  }
  keep(attempt);
}

void SupervisorHost::keep(std::string attempt) {
  const std::uint64_t bytes = bytes_in(folder_ / "kept" / attempt);
  kept_.push_back({std::move(attempt), bytes});
  kept_bytes_ += bytes;
  while (kept_.size() > kMaxKeptAttempts || (kept_bytes_ > keep_bytes_ && kept_.size() > 1)) {
    std::error_code error;
    fs::remove_all(folder_ / "kept" / kept_.front().attempt, error);
    kept_bytes_ -= kept_.front().bytes;
    kept_.pop_front();
  }
}

}  // namespace harmonics::inline in_worker
