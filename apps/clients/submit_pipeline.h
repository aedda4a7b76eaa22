// From a model file and flags to a pipeline that needs neither.
#pragma once

#include <harmonics/cluster/task.h>
#include <harmonics/options/cluster_commands.h>

namespace harmonics::inline in_clients {

/// Whether a flag sets the field that task JSON calls `key`.
[[nodiscard]] bool sets(const SubmitCommand& command, std::string_view key);

/// Sets the value of a key, which is added where it is new.
void put(TextPairs& pairs, const std::string& key, const std::string& value);

/// Applies the pipeline's flags, if there are any, and reads the model: its text, its bindings with
/// absolute paths, and the settings that a plan needs. What the model or a setting has wrong is an
/// Error here, before anything is submitted. Does nothing for other tasks.
void complete_pipeline(const SubmitCommand& command, TaskSpec& spec);

}  // namespace harmonics::inline in_clients
