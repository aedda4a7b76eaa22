// For tests: a folder that goes with the object.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

namespace harmonics::inline in_base {

/// A fresh empty folder that only its owner reads, removed with everything in it when this goes.
/// Stands for its path wherever one is wanted.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "harmonics-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail_errno(errno, "cannot make the folder " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  operator const std::filesystem::path&() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::filesystem::path& name) const {
    return path_ / name;
  }

  /// Writes a file, and the folders above it, and answers its path.
  std::filesystem::path write(const std::filesystem::path& name, std::string_view text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    write_text_file(path_ / name, text);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace harmonics::inline in_base
