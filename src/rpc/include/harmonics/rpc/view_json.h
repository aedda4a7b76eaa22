// What clients are told, as JSON: written once, for `--output json`, the page and /status.
#pragma once

#include <harmonics/base/json.h>
#include <harmonics/rpc/views.h>

namespace harmonics::inline in_rpc {

/// As `harmonics monitor --output json` and /status of the server show it.
[[nodiscard]] Json status_json(const ClusterStatus& status);
/// As `harmonics task`, `tasks` and `monitor` show it.
[[nodiscard]] Json task_json(const TaskView& task);
/// As `harmonics workers` shows it.
[[nodiscard]] Json worker_json(const WorkerView& worker);
/// As `harmonics quota` shows it.
[[nodiscard]] Json quota_json(const UserView& user);
/// As `harmonics why` shows it.
[[nodiscard]] Json why_json(const WhyPending& why);
/// As `harmonics artifacts` shows it.
[[nodiscard]] Json artifact_json(const ArtifactView& artifact);

/// Attempts that failed by themselves, the last one included.
[[nodiscard]] std::int64_t failed_attempts(const TaskView& task);

}  // namespace harmonics::inline in_rpc
