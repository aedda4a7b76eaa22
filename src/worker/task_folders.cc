#include "task_folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_worker {
namespace {

namespace fs = std::filesystem;

/// Others pass through, and see nothing.
constexpr mode_t kPassThrough = S_IRWXU | S_IXGRP | S_IXOTH;

void make_own(const fs::path& folder) {
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    fail_errno(errno, format("--task-dir: cannot make the folder '{}'", folder.string()));
  }
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  const bool ours = opened && ::fstat(opened.get(), &status) == 0 && status.st_uid == ::geteuid() &&
                    (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
                    ::fchmod(opened.get(), kPassThrough) == 0;
  if (ours) return;
  fail(ErrorCode::kFailedPrecondition,
       "--task-dir: '{}' is no folder of the worker's user that others cannot write to; remove it",
       folder.string());
}

}  // namespace

TaskFolders::TaskFolders(const fs::path& place, const std::string& mark,
                         const std::vector<std::string>& running) {
  const fs::path root = fs::absolute(place).lexically_normal();
  std::error_code error;
  if (!fs::is_directory(root, error)) make_own(root);
  folder_ = root / ("harmonics-" + mark);
  make_own(folder_);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    left.push_back(entry.path().filename().string());
  }
  for (const std::string& attempt : left) {
    if (std::ranges::find(running, attempt) == running.end()) remove(attempt);
  }
}

void TaskFolders::ensure() const {
  if (!folder_.empty()) make_own(folder_);
}

std::string TaskFolders::of(const std::string& attempt) const {
  return (folder_ / attempt).string();
}

void TaskFolders::remove(const std::string& attempt) const {
  if (folder_.empty()) return;
  const fs::path folder = folder_ / attempt;
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return;
  std::error_code error;
  const TaskCredentials owner{status.st_uid, status.st_gid, {}};
  if (const AsUser rights(&owner); rights.good()) {
    // The folder itself stays: it lies in one that is not theirs.
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      std::error_code kept;
      fs::remove_all(entry.path(), kept);
    }
  }
  if (::rmdir(folder.c_str()) == 0) return;
  fs::remove_all(folder, error);
  if (error) log_warn("worker", "cannot remove '{}': {}", folder.string(), error.message());
}

void TaskFolders::check_reach(const TaskAccount& account) const {
  const AsUser rights(&account.credentials);
  struct stat status {};
  if (rights.good() && ::stat((folder_ / ".").c_str(), &status) == 0) return;
  fail(ErrorCode::kFailedPrecondition,
       "--task-dir: '{}', where tasks are to work, cannot be entered by '{}'; name a folder that "
       "everybody may pass through",
       folder_.string(), account.name);
}

}  // namespace harmonics::inline in_worker
