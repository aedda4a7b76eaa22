// For the planner's tests: folders, files and the example inputs.
#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/plan/inputs.h>

namespace harmonics {

/// A fresh empty folder, removed with everything in it when this goes.
class PlanTestFolder {
 public:
  PlanTestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "harmonics-plan-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      fail(ErrorCode::kUnavailable, "cannot make the test folder '{}'", name);
    }
    path_ = name;
  }
  ~PlanTestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PlanTestFolder(const PlanTestFolder&) = delete;
  PlanTestFolder& operator=(const PlanTestFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    write_text_file(path_ / name, text);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// The message of the Error that `action` throws; empty when it throws none.
template <typename Action>
std::string plan_error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Where the example files are.
inline std::filesystem::path example_folder() {
  const char* source = std::getenv("HARMONICS_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) / "examples/plan";
}

/// The two ViT models on four Minnowboards and four RCC boards.
inline PlanInputs example_inputs() {
  const std::filesystem::path folder = example_folder();
  return read_plan_inputs({.models = folder / "models.yml",
                           .types = folder / "device_types.yml",
                           .hosts = folder / "devices.yml",
                           .links = {}});
}

}  // namespace harmonics
