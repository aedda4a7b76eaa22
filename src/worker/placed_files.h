// Files that came with a task, put into the folder that it runs in (private to worker).
#pragma once

#include <span>
#include <string>

#include <harmonics/cluster/task.h>

#include "supervisor/credentials.h"

namespace harmonics::inline in_worker {

/// Makes the folder, which must not be there, and writes the files into it; their paths have passed
/// `check_files`. All of it belongs to `owner` then (null: to this user), the folder last: until
/// then nobody else can be in there. False (and errno) when something cannot be written: what was
/// is left.
bool place_files(const std::string& folder, std::span<const TaskFile> files,
                 const TaskCredentials* owner);

}  // namespace harmonics::inline in_worker
