// Tells whether a checkpoint was written since a moment.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <tuple>

namespace harmonics::inline in_torch_program {

/// Remembers the file under a name as it is now. Checkpoints appear by being renamed, so that a new
/// one is another file. A value.
class CheckpointStamp {
 public:
  explicit CheckpointStamp(std::filesystem::path path)
      : path_(std::move(path)), then_(look(path_)) {}

  /// True when there is a file now that was not there then.
  [[nodiscard]] bool has_changed() const {
    const auto now = look(path_);
    return now.has_value() && now != then_;
  }

 private:
  using Look = std::tuple<ino_t, time_t, long>;
  static std::optional<Look> look(const std::filesystem::path& path) {
    struct stat status {};
    if (path.empty() || ::stat(path.c_str(), &status) != 0) return std::nullopt;
    return Look{status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  }

  std::filesystem::path path_;
  std::optional<Look> then_;
};

}  // namespace harmonics::inline in_torch_program
