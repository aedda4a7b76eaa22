// Lists of tasks that take several questions.
#pragma once

#include <cstddef>
#include <vector>

#include <harmonics/rpc/client.h>

namespace harmonics::inline in_clients {

/// The first `limit` tasks that fit the query, oldest first.
[[nodiscard]] std::vector<TaskView> first_tasks(ClusterClient& client, ListTasksQuery query,
                                                std::size_t limit);
/// The newest `limit` tasks that fit the query, oldest first; from the end, so that it takes as
/// long as there are tasks to show and not as there are tasks.
[[nodiscard]] std::vector<TaskView> newest_tasks(ClusterClient& client, ListTasksQuery query,
                                                 std::size_t limit);

}  // namespace harmonics::inline in_clients
