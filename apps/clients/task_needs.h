// What the flags of `harmonics submit` say of a task's needs (private to clients).
#pragma once

#include <filesystem>

#include <harmonics/cluster/task.h>
#include <harmonics/options/cluster_commands.h>

namespace harmonics::inline in_clients {

/// Lines of KEY=VALUE; empty ones and those that begin with # say nothing. Throws an `Error`
/// (kInvalidArgument) with file and line.
[[nodiscard]] TextPairs read_env_file(const std::filesystem::path& file);

/// Sets terms and variants as the flags say; of each kind that a flag names, what was there goes.
void add_needs(const SubmitCommand& command, TaskSpec& spec);

}  // namespace harmonics::inline in_clients
