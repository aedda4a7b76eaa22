// All that facts have made: the one interpreter of facts, for the living and the restarted server.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <harmonics/cluster/cluster_records.h>
#include <harmonics/cluster/fact.h>
#include <harmonics/cluster/policy.h>
#include <harmonics/cluster/worker_pool.h>

namespace harmonics::inline in_cluster {

struct Ranking;
struct StateTables;

/// Tasks, workers, users and the queue. Owned by one thread; reading is const and cheap. A fact
/// that cannot follow from this state (an end without a start) is an `Error` (kDataLoss): the
/// journal is damaged or the code is wrong, and neither may be papered over.
class ClusterState {
 public:
  ClusterState();
  ~ClusterState();
  ClusterState(ClusterState&&) noexcept;
  ClusterState& operator=(ClusterState&&) noexcept;

  void apply(const Fact& fact);
  /// Hands out facts that make an equal state of an empty one.
  void snapshot(const std::function<void(const Fact&)>& keep) const;
  /// Equal in everything that facts determine (not who is connected). A reactor that is not through
  /// with tasks that succeeded elsewhere have freed is not there yet.
  [[nodiscard]] bool operator==(const ClusterState& other) const;

  [[nodiscard]] Term term() const;
  /// Zero: nothing is known of it.
  [[nodiscard]] const LeasesPromised& promised() const;
  /// The id that the next submission gets.
  [[nodiscard]] TaskId next_task() const;
  [[nodiscard]] WorkerId next_worker() const;

  [[nodiscard]] const TaskRecord* find_task(TaskId id) const;
  /// Tasks that are kept, ended ones included.
  [[nodiscard]] std::size_t task_count() const;
  /// Calls `visit` for up to `limit` tasks from `from` on in order of id; true when there are more.
  bool each_task(TaskId from, std::size_t limit,
                 const std::function<void(const TaskRecord&)>& visit) const;
  /// Calls `visit` from task `from` on, in order of id or downwards, until it says no.
  enum class Order { kUp, kDown };
  void visit_tasks(TaskId from, Order order,
                   const std::function<bool(const TaskRecord&)>& visit) const;
  /// Pending tasks with a higher priority, or with the same and a smaller id.
  [[nodiscard]] std::uint64_t count_before(const TaskRecord& task) const;
  /// From now on pending tasks stand in the order of this policy, which must outlive the state.
  void order_by(WorkloadPolicy& policy);
  /// The pending task that a pass over the queue looks at first.
  [[nodiscard]] std::optional<TaskId> first_in_line(const Ranking& ranking) const;
  /// The pending task that came first.
  [[nodiscard]] std::optional<TaskId> oldest_pending() const;
  /// Whether tasks wait for some that did not succeed, and have to be ended.
  [[nodiscard]] bool has_doomed() const;
  /// Whether tasks wait for some that have succeeded, and have to be queued.
  [[nodiscard]] bool has_freed() const;
  /// Whether the task is one of them: it waits for nothing else.
  [[nodiscard]] bool is_freed(const TaskRecord& task) const;
  /// When the next back-off ends.
  [[nodiscard]] std::optional<Time> next_ready() const;

  [[nodiscard]] const WorkerRecord* find_worker(WorkerId id) const;
  [[nodiscard]] const WorkerRecord* find_worker(std::string_view name) const;
  [[nodiscard]] std::vector<const WorkerRecord*> workers() const;  ///< Natural order of names.
  /// The first `limit` attempts with a member on that worker that has not ended, in order of task.
  [[nodiscard]] std::vector<AttemptId> attempts_on(
      WorkerId id, std::size_t limit = std::numeric_limits<std::size_t>::max()) const;

  /// What every worker has free. `Worker::open` is the reactor's, not a fact.
  [[nodiscard]] const WorkerPool& pool() const;

  /// Null for a user who never submitted and has no quota.
  [[nodiscard]] const UserRecord* find_user(std::string_view name) const;
  [[nodiscard]] std::vector<const UserRecord*> users() const;

  /// How many tasks are in each state, by index of the alternative in TaskState.
  [[nodiscard]] const std::array<std::uint64_t, std::variant_size_v<TaskState>>& counts() const;

 private:
  friend class Decisions;  // Opens and closes workers in the pool.
  std::unique_ptr<StateTables> tables_;
};

}  // namespace harmonics::inline in_cluster
