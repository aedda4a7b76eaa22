// Whose rights a task has (private to worker). POSIX and Linux alone, like all of the supervisor.
#pragma once

#include <sys/types.h>

#include <vector>

namespace harmonics::inline in_worker {

struct TaskCredentials {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  ///< All that it is in.
  bool operator==(const TaskCredentials&) const = default;
};

/// The capabilities without which tasks cannot be run as another user; by name, for people. Empty:
/// this process and the programs that it starts have all of them.
[[nodiscard]] std::vector<const char*> lacking_capabilities();

/// Gives the calling process, which must have one thread, to that user for good: groups, ids, no
/// capability is left, and none comes back through a program that has some. Allocates nothing.
/// False (and errno): it must not go on.
[[nodiscard]] bool become_user(const TaskCredentials& user);

/// As long as it lives, the calling thread opens and removes files with the rights of that user,
/// and no others; null changes nothing. One may lie within another. A parent-death signal of the
/// thread is not sent meanwhile: look for the parent afterwards.
class AsUser {
 public:
  explicit AsUser(const TaskCredentials* user);
  ~AsUser();
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  /// False: it has not become that user, and must leave that user's files alone.
  [[nodiscard]] bool good() const { return good_; }

 private:
  bool changed_ = false;
  bool good_ = true;
  // What it was before.
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  int death_signal_ = 0;
  std::vector<gid_t> groups_;
  struct Words {
    unsigned effective = 0;
    unsigned permitted = 0;
    unsigned inheritable = 0;
  };
  Words capabilities_[2];
};

}  // namespace harmonics::inline in_worker
