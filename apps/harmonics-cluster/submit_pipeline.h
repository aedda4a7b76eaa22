// From a model file and flags to a pipeline that needs neither.
#pragma once

#include <harmonics/cluster/task.h>
#include <harmonics/options/cluster_commands.h>

namespace harmonics::inline in_cluster_program {

/// Applies the pipeline's flags, if there are any, and reads the model: its text, its bindings with
/// absolute paths, and the settings that a plan needs. What the model or a setting has wrong is an
/// Error here, before anything is submitted. Does nothing for other tasks.
void complete_pipeline(const SubmitCommand& command, TaskSpec& spec);

}  // namespace harmonics::inline in_cluster_program
