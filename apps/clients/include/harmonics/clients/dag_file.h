// A file with many tasks that wait for each other (docs/formats/task-json.md).
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include <harmonics/cluster/event.h>

namespace harmonics::inline in_clients {

/// The tasks in an order in which each stands behind those that it waits for. An `Error`
/// (kInvalidArgument) names the file and the task: a name that is there twice or not at all, a
/// circle, what `parse_task` refuses.
[[nodiscard]] std::vector<DagRequest::Node> read_dag(const std::filesystem::path& file);
[[nodiscard]] std::vector<DagRequest::Node> parse_dag(std::string_view text,
                                                      std::string_view where);

}  // namespace harmonics::inline in_clients
