// The cluster's state as clients see it (private to server). Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <harmonics/rpc/views.h>

namespace harmonics::inline in_server {

/// Lines of progress; empty: none.
struct TaskProgress {
  std::string newest{};
  std::vector<std::string> members{};  ///< The newest of each rank of a gang or pipeline.
  std::vector<bool> measured{};        ///< Ranks of a pipeline that have told what they measured.
};
using ProgressOf = std::function<TaskProgress(TaskId)>;

/// How much of a spec a view holds.
enum class Detail { kWhole, kBrief };
[[nodiscard]] TaskView view_task(const ClusterState& state, const TaskRecord& task,
                                 const ProgressOf& progress, Detail detail = Detail::kWhole);
/// Looks at no more than kMaxTasksScanned tasks and ends after kMaxTaskPageBytes: a page may be
/// short, and `next` goes on.
inline constexpr std::size_t kMaxTasksScanned = 100'000;
[[nodiscard]] TaskPage list_tasks(const ClusterState& state, const ListTasksQuery& query,
                                  const ProgressOf& progress);
/// The newest pipelines that run.
[[nodiscard]] TaskPage view_pipelines(const ClusterState& state, const ProgressOf& progress);
/// Tasks of the query that run, wait first in line, or are the newest; each once, in order of id.
[[nodiscard]] std::vector<TaskView> view_picture(const ClusterState& state,
                                                 const PictureQuery& query,
                                                 const ProgressOf& progress);
[[nodiscard]] std::vector<WorkerView> view_workers(const ServerReactor& reactor);
/// In order of name, at most kMaxUsersListed.
[[nodiscard]] std::vector<UserView> view_quotas(const ClusterState& state,
                                                const QuotasQuery& query);
[[nodiscard]] ClusterStatus view_status(const ServerReactor& reactor);
/// Of one task, or of all of an array by its first id.
[[nodiscard]] WaitResult view_ends(const ClusterState& state, const TaskRecord& task);
/// Whether `viewer` may know of the task.
[[nodiscard]] bool may_see(const Viewer& viewer, const TaskRecord& task);

}  // namespace harmonics::inline in_server
