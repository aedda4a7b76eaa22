// Who runs a task: the seed's interface, the two policies of the seed, and how to add one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/task.h>
#include <harmonics/cluster/worker_pool.h>

namespace harmonics::inline in_cluster {

/// A worker and the devices of it that a task gets.
struct Assignment {
  WorkerId worker;
  DeviceSet devices;
  bool operator==(const Assignment&) const = default;
};

/// Picks a worker. Called by one thread; must depend on its arguments alone.
class WorkloadPolicy {
 public:
  virtual ~WorkloadPolicy() = default;
  /// One worker of `workers` that is open and has what `needs_of(task)` asks for free (a gang calls
  /// once per member, without the workers already chosen). Throws an `Error` (kResourceExhausted)
  /// when there is none now. Any other exception, or an assignment that does not fit, is a broken
  /// policy: `balanced` decides instead and the log says so.
  virtual Assignment assign_task(const WorkerPool& workers, const TaskSpec& task) = 0;
  /// The same without the cost of an exception: nothing when there is none. The default asks
  /// `assign_task`.
  virtual std::optional<Assignment> try_assign(const WorkerPool& workers, const TaskSpec& task);
  /// A pass over the queue begins, in which it is asked any number of times.
  virtual void begin_pass() {}
};

/// Fewest free devices left over, then least surplus memory on the chosen devices, then the name in
/// natural order: packs, and keeps whole machines free for large tasks.
class SimplePolicy final : public WorkloadPolicy {
 public:
  Assignment assign_task(const WorkerPool& workers, const TaskSpec& task) override;
  std::optional<Assignment> try_assign(const WorkerPool& workers, const TaskSpec& task) override;
};

/// Fewest active tasks per device (a worker without devices counts as one device), then most free
/// devices, then the name in natural order: spreads.
class BalancedPolicy final : public WorkloadPolicy {
 public:
  Assignment assign_task(const WorkerPool& workers, const TaskSpec& task) override;
  std::optional<Assignment> try_assign(const WorkerPool& workers, const TaskSpec& task) override;
};

/// "balanced" and the others, as a server's --policy takes them.
[[nodiscard]] std::vector<std::string> policy_names();
/// One of them; another name is an `Error` (kInvalidArgument) that lists them.
[[nodiscard]] std::unique_ptr<WorkloadPolicy> make_policy(std::string_view name);

}  // namespace harmonics::inline in_cluster
