// Who runs a task, where, and who goes first: the interface of policies, and those there are.
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

/// How long a task has waited and run so far, attempts that were stopped included.
struct Standing {
  const TaskSpec& spec;
  Nanoseconds waited{};
  Nanoseconds ran{};
};

/// Who goes first among tasks of one priority.
enum class OrderRule : std::uint8_t {
  kShares,     ///< Whose user holds the least for their weight; then the smaller level, the older.
  kLevels,     ///< The smaller level; then by shares, the older.
  kDisplaces,  ///< As kLevels; one that finds no place stops running ones of a larger level.
};

/// Picks a worker, and who goes first. Called by one thread; must depend on its
/// arguments and what it was asked before alone.
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
  /// The rule by which `level` orders; the same for the policy's whole life.
  [[nodiscard]] virtual OrderRule rule() const { return OrderRule::kShares; }
  /// Where a task stands: smaller goes first. Asked of tasks that wait and, where levels displace,
  /// of those that run. The default goes by time limits: the shorter first, while waiting makes all
  /// of them shorter, so that everybody's turn comes. Tasks without a limit count as a day.
  [[nodiscard]] virtual std::uint32_t level(const Standing& standing);
  /// A pass over the queue begins, in which it is asked any number of times.
  virtual void begin_pass() {}
};

/// Fewest free devices left over, then least surplus memory on the chosen devices, then the name in
/// natural order: packs, and keeps whole machines free for large tasks.
class SimplePolicy : public WorkloadPolicy {
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

/// Least attained service, in devices times seconds: whoever has had the least goes first, and what
/// has had more makes room for it. Needs to know of no durations; where there is a time limit, what
/// is left of it counts instead. Who waits for longer than they ran moves up. Places as `simple`.
class LasPolicy final : public SimplePolicy {
 public:
  [[nodiscard]] OrderRule rule() const override { return OrderRule::kDisplaces; }
  [[nodiscard]] std::uint32_t level(const Standing& standing) override;
};

/// Shortest remaining time first, as time limits tell it: what is left of them. Places as `simple`.
class SrtfPolicy final : public SimplePolicy {
 public:
  [[nodiscard]] OrderRule rule() const override { return OrderRule::kDisplaces; }
  [[nodiscard]] std::uint32_t level(const Standing& standing) override;
};

/// Fragmentation gradient descent: where it leaves the least of the devices without use for the
/// tasks that come, as far as those that came tell. For clusters whose tasks share devices. Learns
/// from what it is asked; asked the same in the same order, it gives the same.
class FgdPolicy final : public WorkloadPolicy {
 public:
  FgdPolicy();
  ~FgdPolicy() override;
  Assignment assign_task(const WorkerPool& workers, const TaskSpec& task) override;
  std::optional<Assignment> try_assign(const WorkerPool& workers, const TaskSpec& task) override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// "balanced" and the others, as a server's --policy takes them.
[[nodiscard]] std::vector<std::string> policy_names();
/// One of them; another name is an `Error` (kInvalidArgument) that lists them.
[[nodiscard]] std::unique_ptr<WorkloadPolicy> make_policy(std::string_view name);

}  // namespace harmonics::inline in_cluster
