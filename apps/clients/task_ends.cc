#include <harmonics/clients/task_ends.h>

#include <algorithm>

namespace harmonics::inline in_clients {

using std::chrono::milliseconds;

WaitResult wait_for_all(ClusterClient& client, const std::vector<std::int64_t>& tasks,
                        milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  WaitResult all;
  all.ended = true;
  for (const std::int64_t task : tasks) {
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    const WaitResult one =
        client.wait({static_cast<std::uint64_t>(task)}, std::max(left, milliseconds(0)));
    all.ended = all.ended && one.ended;
    all.succeeded += one.succeeded;
    all.failed += one.failed;
    all.cancelled += one.cancelled;
    all.dependency_failed += one.dependency_failed;
    all.unfinished += one.unfinished;
  }
  return all;
}

}  // namespace harmonics::inline in_clients
