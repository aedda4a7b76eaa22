// Files that a task leaves for its user: gathered by the supervisor when the task is over (private
// to worker). Standard library and POSIX alone, like all of the supervisor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "credentials.h"

namespace harmonics::inline in_worker {

/// Files kept of one attempt.
inline constexpr std::uint64_t kMaxArtifactFiles = 10'000;
/// Where in an attempt's folder they lie, under their own relative paths.
inline constexpr const char* kArtifactsFolder = "artifacts";

struct ArtifactWish {
  /// Relative paths; each part may hold * ? [ ]; a folder means all that is in it.
  std::vector<std::string> patterns;
  std::uint64_t max_bytes = 0;  ///< Of all together.
  std::uint64_t max_files = kMaxArtifactFiles;
};

/// Gathers what lies below `from` (the task's working directory) into `folder`/artifacts: moved if
/// `from` is `folder` itself or below it, copied otherwise. Links and special files are left out.
/// With a `user` they are always copied, and read with that user's rights alone. What is not kept,
/// and why, for people; empty when all is there.
std::string keep_artifacts(const ArtifactWish& wish, const std::string& from,
                           const std::string& folder, const TaskCredentials* user = nullptr);

struct Artifact {
  std::string path;
  std::uint64_t bytes = 0;
};
/// What was kept, in order of path.
std::vector<Artifact> list_artifacts(const std::string& folder);
/// The file's place on this machine; nothing if it is none of `list_artifacts`.
std::optional<std::string> find_artifact(const std::string& folder, const std::string& path);

}  // namespace harmonics::inline in_worker
