// Where tasks of other users than the worker's work (private to worker).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "task_users.h"

namespace harmonics::inline in_worker {

/// Where tasks that run as other users work, since they cannot enter the worker's state folder: a
/// folder of this worker's own that anybody may pass through and nobody else may list or change.
/// One thread.
class TaskFolders {
 public:
  TaskFolders() = default;
  /// Makes `<place>/harmonics-<mark>`; an Error if it is there and not this user's alone. `place`
  /// is made too if it is not there. What is left of attempts is removed, but for `running`.
  TaskFolders(const std::filesystem::path& place, const std::string& mark,
              const std::vector<std::string>& running);

  /// Before an attempt begins: makes it again if it was cleaned away, and throws an Error if
  /// somebody else has taken its place.
  void ensure() const;
  /// Where the attempt works; made with its files, by `place_files`.
  [[nodiscard]] std::string of(const std::string& attempt) const;
  /// Nothing happens if there is none. What is in there is removed with the rights of whoever owns
  /// it, so that no link leads anywhere else.
  void remove(const std::string& attempt) const;
  /// An Error when that user cannot enter it.
  void check_reach(const TaskAccount& account) const;

 private:
  std::filesystem::path folder_;  ///< Empty: there is none.
};

}  // namespace harmonics::inline in_worker
