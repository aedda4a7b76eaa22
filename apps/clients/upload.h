// Files that travel with a task (submit --upload).
#pragma once

#include <string>
#include <vector>

#include <harmonics/cluster/task.h>

namespace harmonics::inline in_clients {

/// Reads the files, and all that is in the folders, under their paths relative to the current
/// folder (by their last name where they lie outside it). Hidden names (".git"), "__pycache__" and
/// links to folders are left out of folders. More than a task may carry, two files of one name, and
/// what is neither file nor folder are Errors that name it.
[[nodiscard]] std::vector<TaskFile> collect_files(const std::vector<std::string>& names);

}  // namespace harmonics::inline in_clients
