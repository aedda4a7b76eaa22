// Waiting for several tasks.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <harmonics/rpc/client.h>

namespace harmonics::inline in_clients {

/// Until all have ended (an array by its first id) or `limit` has passed: how they ended, added up.
[[nodiscard]] WaitResult wait_for_all(ClusterClient& client, const std::vector<std::int64_t>& tasks,
                                      std::chrono::milliseconds limit);

}  // namespace harmonics::inline in_clients
