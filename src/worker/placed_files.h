// Files that came with a task, put into the folder that it runs in (private to worker).
#pragma once

#include <span>
#include <string>

#include <harmonics/cluster/task.h>

namespace harmonics {

/// Makes the folder, which must not be there, and writes the files into it; their paths have passed
/// `check_files`. False (and errno) when something cannot be written: what was is left.
bool place_files(const std::string& folder, std::span<const TaskFile> files);

}  // namespace harmonics
