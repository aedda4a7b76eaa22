// Pages of counts: metrics for Prometheus and a status for scripts (private to server).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <harmonics/serve/http_door.h>

#include "server_loop.h"

namespace harmonics::inline in_server {

/// Whether it is /metrics or /status.
[[nodiscard]] bool is_plain_page(std::string_view path);

/// /metrics or /status. They show counts, also by user and worker, and of
/// pipelines that run their numbers; nothing else of tasks, not even their names. Waits for the
/// loop.
[[nodiscard]] HttpReply plain_page(ServerLoop& loop, std::string_view path);

/// The text of /status.
[[nodiscard]] std::string status_text(const ClusterStatus& status,
                                      const std::vector<TaskView>& pipelines);

}  // namespace harmonics::inline in_server
