// Who tasks run as: the worker's own user, another one, or each owner's (private to worker).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/credentials.h"

namespace harmonics::inline in_worker {

/// An account of this machine, as far as a task needs it.
struct TaskAccount {
  std::string name;
  TaskCredentials credentials;
  std::string home;
  std::string shell;
};

/// Looks accounts up anew each time: what changes counts for the next task.
class TaskUsers {
 public:
  /// The account that has the name of the task's owner.
  static constexpr const char* kOwner = "owner";

  /// `wish`: a name, `kOwner`, or empty for the worker's own user. An Error where this process may
  /// not run programs as others, or the name is of no account, of root or of the worker's user.
  explicit TaskUsers(std::string wish);

  /// Whether tasks run as somebody else than the worker.
  [[nodiscard]] bool apart() const { return !wish_.empty(); }
  [[nodiscard]] const std::string& wish() const { return wish_; }
  /// Nothing: as the worker. An Error when the owner has no account here, or one that is root's or
  /// the worker's own.
  [[nodiscard]] std::optional<TaskAccount> account_of(const std::string& owner) const;
  /// An Error for a file or folder that others than this user could read: it or some folder above
  /// must have no rights for group and others. Nothing is asked where tasks are not apart.
  void check_closed(const std::vector<std::filesystem::path>& secrets) const;

 private:
  std::string wish_;
};

}  // namespace harmonics::inline in_worker
