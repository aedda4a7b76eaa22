// The insides of ClusterState, for the files of this module.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <harmonics/cluster/cluster_state.h>

#include "task/task_queue.h"
#include "task/task_table.h"

namespace harmonics::inline in_cluster {

/// How far the tasks of one submission are.
struct ArrayProgress {
  std::uint32_t kept = 0;  ///< Tasks that are not forgotten.
  std::uint32_t unfinished = 0;
  std::uint32_t unsuccessful = 0;
};

/// Tasks of one submission that something is to become of, piece by piece: from the next to look at
/// to one past the last.
struct TaskSpan {
  TaskId next{};
  TaskId end{};
};

struct StateTables {
  Term term{};
  TaskId next_task{1};
  WorkerId next_worker{1};
  LeasesPromised promised{};
  std::uint64_t file_bytes = 0;        ///< Of the files of all submissions.
  std::uint64_t ended_file_bytes = 0;  ///< Of those whose first task has ended.
  TaskTable tasks;
  TaskQueue queue;
  std::map<TaskId, ArrayProgress> arrays;     ///< Only submissions of more than one task.
  std::set<std::pair<Time, TaskId>> delayed;  ///< By the end of their back-off.
  std::set<std::pair<Time, TaskId>> ended;    ///< By when they ended.
  /// What waits for a task (or, by its first id, for an array): first ids of submissions.
  std::unordered_map<TaskId, std::vector<TaskId>> dependents;
  /// What waits for a task that did not succeed; some of it may have ended since. The reactor ends
  /// it piece by piece, so a restart finds it here again.
  std::deque<TaskSpan> doomed;
  /// What waited for something that has succeeded, one span for each: it waits for one thing less.
  /// No fact says how far that has come: a replay does all of it at once.
  std::deque<TaskSpan> freed;
  std::unordered_map<std::string, TaskId> keys;  ///< By user, a zero byte and the key.
  std::map<WorkerId, WorkerRecord> workers;
  std::unordered_map<std::string, WorkerId> identities;
  std::map<WorkerId, std::set<AttemptId>> attempts;  ///< With a member there that has not ended.
  std::map<std::int32_t, std::uint64_t> active_by_priority;
  std::map<std::string, UserRecord, std::less<>> users;
  std::array<std::uint64_t, std::variant_size_v<TaskState>> counts{};
  WorkerPool pool;
  /// The level of a task that has run for so long and not waited; unset: 0. The policy's, no fact.
  std::function<std::uint32_t(const TaskSpec&, Nanoseconds)> level_of;

  /// Puts a pending task in its place.
  void enqueue(TaskRecord& task);
  /// Where a pending task stands.
  [[nodiscard]] LaneKey lane_of(const TaskRecord& task) const;

  void apply(const TermStarted& fact);
  void apply(const TasksSubmitted& fact);
  void apply(const AttemptStarted& fact);
  void apply(const AttemptPlanned& fact);
  void apply(const MemberLaunched& fact);
  void apply(const MemberEnded& fact);
  void apply(const AttemptStopping& fact);
  void apply(const AttemptRequeued& fact);
  void apply(const TaskReady& fact);
  void apply(const CancelRequested& fact);
  void apply(const TaskEnded& fact);
  void apply(const TasksForgotten& fact);
  void apply(const WorkerRegistered& fact);
  void apply(const WorkerDraining& fact);
  void apply(const WorkerForgotten& fact);
  void apply(const QuotaSet& fact);
  void apply(const LeasesPromised& fact);
  void apply(const RunCounted& fact);
  void apply(const PriorityChanged& fact);
  void apply(const CountersKept& fact);
  void apply(const TaskKept& fact);
  void apply(const PlacesKept& fact);
  void apply(const PastPlacesKept& fact);

  /// What the indexes name is there: else they are broken, and so is a check.
  [[nodiscard]] const TaskRecord& known_task(TaskId id) const;
  [[nodiscard]] const UserRecord& known_user(std::string_view name) const;
  /// The task, or an `Error` (kDataLoss): a fact names what is not there.
  TaskRecord& task(TaskId id);
  /// The task with its current attempt running.
  std::pair<TaskRecord&, Active&> active(AttemptId id);
  UserRecord& user(const std::string& name);
  /// Distinct ids that the submission waits for and that have not ended.
  [[nodiscard]] std::vector<TaskId> open_dependencies(const TaskSpec& spec) const;
  [[nodiscard]] bool finished(TaskId dependency) const;
  /// Whether it has not ended and none of its array has failed.
  [[nodiscard]] bool may_succeed(TaskId dependency) const;

  /// Leaves the indexes of the old state, then enters those of the new one.
  void change(TaskRecord& task, TaskState next);
  void enter(TaskRecord& task);
  void leave(TaskRecord& task);
  void lease(const TaskRecord& task, const Member& member);
  void release(const TaskRecord& task, const Member& member);
  void count_end(const TaskRecord& task, bool success);
  /// The dependency has succeeded: what waits for it is freed.
  void satisfy(TaskId dependency);
  /// Looks at up to so many tasks that are freed; how many it looked at.
  std::size_t free_some(std::size_t limit);
  /// The state of a task as it is once all that is freed has been looked at.
  [[nodiscard]] TaskState settled(const TaskRecord& task) const;
  /// The dependency did not succeed: what waits for it is doomed.
  void disappoint(TaskId dependency);
  void doom(const Submission& submission);
  void watch_dependencies(const Submission& submission);
};

/// The attempt of a task that is known to be active.
[[nodiscard]] const Active& running(const TaskRecord& task);

[[nodiscard]] std::string key_of(std::string_view user, std::string_view key);

}  // namespace harmonics::inline in_cluster
