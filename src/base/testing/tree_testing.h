// For tests: where the project's source and its build lie, as ctest tells.
#pragma once

#include <cstdlib>
#include <filesystem>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {

/// The folder that `variable` names. A test program that was started by hand may lack it: then an
/// Error, which fails the test, says so.
inline std::filesystem::path folder_named_by(const char* variable) {
  const char* folder = std::getenv(variable);
  if (folder == nullptr || *folder == '\0') {
    fail(ErrorCode::kFailedPrecondition,
         "{} is not set: start this test by ctest, which sets HARMONICS_SOURCE_DIR (the project's "
         "folder) and HARMONICS_BINARY_DIR (the build's), or set them by hand",
         variable);
  }
  return folder;
}

inline std::filesystem::path source_folder() { return folder_named_by("HARMONICS_SOURCE_DIR"); }
inline std::filesystem::path binary_folder() { return folder_named_by("HARMONICS_BINARY_DIR"); }

}  // namespace harmonics::inline in_base
