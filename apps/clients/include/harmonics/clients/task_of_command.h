// From the flags of `harmonics submit` to the task that they mean.
#pragma once

#include <vector>

#include <harmonics/cluster/task.h>
#include <harmonics/options/cluster_commands.h>

namespace harmonics::inline in_clients {

/// Reads the files that the command names and checks all that can be known here: what is wrong is
/// an Error before anything is submitted. `files` go with it besides those of its own.
[[nodiscard]] TaskSpec task_of(const SubmitCommand& command,
                               const std::vector<TaskFile>& files = {});

}  // namespace harmonics::inline in_clients
