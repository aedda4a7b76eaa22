// A folder of its own for a test.
#pragma once

#include <stdlib.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

namespace harmonics {

/// A fresh empty folder, removed with everything in it when this goes.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "harmonics-data-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      fail(ErrorCode::kUnavailable, "cannot make the test folder '{}'", name);
    }
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a file and answers its path.
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    write_text_file(path_ / name, text);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// The message of the Error that `action` throws; empty when it throws none.
template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace harmonics
