// Pages that need no token: metrics for Prometheus and a status for scripts (private to server).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/serve/http_door.h>

#include "server_loop.h"

namespace harmonics::inline in_server {

/// /metrics and /status; nothing: it is neither. They show counts, also by user and worker, and of
/// pipelines that run their numbers; nothing else of tasks, not even their names. Waits for the
/// loop.
[[nodiscard]] std::optional<HttpReply> plain_page(ServerLoop& loop, std::string_view path);

/// The text of /status.
[[nodiscard]] std::string status_text(const ClusterStatus& status,
                                      const std::vector<TaskView>& pipelines);

}  // namespace harmonics::inline in_server
