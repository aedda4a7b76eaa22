// Files that travel with a task.
#pragma once

#include <cstdint>

#include <harmonics/cluster/task.h>

namespace harmonics::inline in_cluster {

/// Of all the task's files, names included.
[[nodiscard]] std::uint64_t file_bytes(const TaskSpec& spec);

/// Throws an `Error` (kInvalidArgument) that names the file for one whose path would leave the
/// task's folder, is there twice or is that of a folder, and for files of a task whose working
/// directory is not below them: for new tasks only, and asked again by whoever writes the files.
void check_files(const TaskSpec& spec);

}  // namespace harmonics::inline in_cluster
