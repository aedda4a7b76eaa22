#include "task_users.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_worker {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxAccountBytes = 64 << 10;
constexpr int kMaxGroups = 4096;

TaskAccount look_up(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> text(kMaxAccountBytes);
  const int failure = ::getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
  if (found == nullptr) {
    fail(ErrorCode::kNotFound, "this machine has no account '{}' to run tasks as{}", name,
         failure != 0 ? format(" ({})", std::strerror(failure)) : "");
  }
  if (entry.pw_uid == 0 || entry.pw_uid == ::geteuid()) {
    fail(ErrorCode::kInvalidArgument, "no task is run as '{}', which is {}", name,
         entry.pw_uid == 0 ? "root" : "the user of the worker itself");
  }
  TaskAccount account{name, {entry.pw_uid, entry.pw_gid, {}}, entry.pw_dir, entry.pw_shell};
  int count = kMaxGroups;
  account.credentials.groups.resize(kMaxGroups);
  if (::getgrouplist(name.c_str(), entry.pw_gid, account.credentials.groups.data(), &count) < 0) {
    fail(ErrorCode::kResourceExhausted, "account '{}' is in more than {} groups", name, kMaxGroups);
  }
  account.credentials.groups.resize(static_cast<std::size_t>(count));
  return account;
}

/// Whether nobody else gets there; what is not there is made by us, and closed.
bool is_closed(const fs::path& path) {
  for (fs::path at = fs::absolute(path).lexically_normal();; at = at.parent_path()) {
    struct stat status {};
    const bool there = ::stat(at.c_str(), &status) == 0;
    if (there && status.st_uid == ::geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0) {
      return true;
    }
    if (at == at.parent_path()) return false;
  }
}

}  // namespace

TaskUsers::TaskUsers(std::string wish) : wish_(std::move(wish)) {
  if (wish_.empty()) return;
  const std::vector<const char*> lacking = lacking_capabilities();
  if (!lacking.empty()) {
    fail(ErrorCode::kPermissionDenied,
         "--task-user {}: this worker may not run tasks as another user, it lacks {}; start it as "
         "root or with these capabilities (ambient), or leave the flag out (tasks can then read "
         "what the worker can)",
         wish_, listed(lacking, [](const char* name) { return std::string(name); }));
  }
  if (wish_ == kOwner) return;
  try {
    static_cast<void>(look_up(wish_));
  } catch (const Error& error) {
    throw Error(error.code(), format("--task-user {}: {}", wish_, error.what()));
  }
}

std::optional<TaskAccount> TaskUsers::account_of(const std::string& owner) const {
  if (wish_.empty()) return std::nullopt;
  return look_up(wish_ == kOwner ? owner : wish_);
}

void TaskUsers::check_closed(const std::vector<fs::path>& secrets) const {
  if (!apart()) return;
  for (const fs::path& path : secrets) {
    if (path.empty() || is_closed(path)) continue;
    fail(
        ErrorCode::kFailedPrecondition,
        "--task-user: '{}' is not closed to others than the worker's user, so tasks could read it: "
        "it must be that user's, without rights for group and others (chmod go= '{}')",
        path.string(), path.string());
  }
}

}  // namespace harmonics::inline in_worker
