// The workers that can be given tasks and what they have free, ordered so that a policy finds its
// choice without looking at every worker.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/task.h>
#include <harmonics/cluster/worker.h>

namespace harmonics::inline in_cluster {

/// How many tasks that it has not launched yet a worker is given: the others stay in the queue,
/// where whoever joins finds them.
inline constexpr std::uint32_t kMaxStartingTasks = 1024;

/// One worker as a policy sees it.
struct Worker {
  WorkerId id;
  WorkerSpec spec;
  std::string order;  ///< natural_key(spec.name)
  DeviceSet free;     ///< Wholly.
  /// By device, what is left of those that are given out in shares; empty while none is.
  std::vector<std::uint32_t> rooms{};
  std::uint32_t sharing = 0;  ///< Of the active tasks: those that have a share of a device.
  std::vector<std::uint64_t> free_resources{};  ///< In the order of `spec.resources`.
  std::vector<std::string> groups{};            ///< Of its tasks that want to be apart, sorted.
  std::uint32_t free_cpus = 0;
  std::uint64_t free_memory_mb = 0;
  std::uint32_t active_tasks = 0;
  bool open = false;           ///< May be given tasks: connected, not draining, not set aside.
  std::uint32_t starting = 0;  ///< Of the active tasks: not launched yet.

  [[nodiscard]] bool fits(const Needs& needs) const;
  /// The free devices with the least memory that is enough, lower ids first; as many as needed. For
  /// a share the device with the least room that is enough. Call only when `fits`.
  [[nodiscard]] DeviceSet choose(const Needs& needs) const;
  /// Whether these devices are what `needs` asks for, and free for it.
  [[nodiscard]] bool gives(DeviceSet devices, const Needs& needs) const;
  /// What is free of a device, in units of kWholeDevice.
  [[nodiscard]] std::uint32_t room(DeviceId id) const {
    return free.has(id) ? kWholeDevice : rooms.empty() ? 0 : rooms[id.value];
  }

  /// One task more or less, which has launched or not. Taking what is not free, or giving back what
  /// was not taken, is a bug and throws kInternal.
  void take(DeviceSet devices, const Needs& needs, bool launched);
  void give_back(DeviceSet devices, const Needs& needs, bool launched);
  /// Whether `take` can be.
  [[nodiscard]] bool can_give(DeviceSet devices, const Needs& needs) const;
};

/// Whether a worker of that kind could run it when it has nothing else to do.
[[nodiscard]] bool could_ever_fit(const WorkerSpec& spec, const Needs& needs);

/// The same of a task, which may be one that this worker does not run at all.
[[nodiscard]] bool could_ever_run(const WorkerSpec& worker, const TaskSpec& task);

/// Whether something of `needs` is more than there is in `most`.
[[nodiscard]] bool exceeds(const Needs& needs, const Needs& most);

/// Natural order of names.
struct ByName {
  bool operator()(const Worker* left, const Worker* right) const {
    const int order = left->order.compare(right->order);
    return order != 0 ? order < 0 : left->spec.name < right->spec.name;
  }
};

/// Open workers that look the same to a policy, in natural order of their names.
struct WorkerGroup {
  /// What the members share. Memory that is free on the host only by its order of magnitude, so
  /// `Worker::fits` must still be asked.
  struct Key {
    std::uint32_t devices = 0;
    std::uint32_t active_tasks = 0;
    std::vector<std::uint64_t> free_memories_mb;  ///< Of the free devices, rising.
    std::uint32_t free_cpus = 0;
    std::uint32_t memory_magnitude = 0;
    std::vector<std::uint32_t> rooms{};  ///< On devices that are given out in shares, rising.
    auto operator<=>(const Key&) const = default;
  };
  Key key;
  std::set<const Worker*, ByName> members;

  /// Whether some member may fit, as far as the key tells.
  [[nodiscard]] bool may_fit(const Needs& needs) const;
  /// The first member that fits, or null. Looks at one member unless host memory decides, or terms.
  [[nodiscard]] const Worker* first_fit(const Needs& needs) const;
};

/// Owns the workers. One thread.
class WorkerPool {
 public:
  WorkerPool();
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Adds a worker, closed and all free, or changes the spec of a known one that has no leases.
  void put(WorkerId id, const WorkerSpec& spec);
  void remove(WorkerId id);
  void set_open(WorkerId id, bool open);
  /// What may change of a worker that has tasks: whether it runs stages, and its labels.
  void describe(WorkerId id, const WorkerSpec& spec);
  /// Takes what a member of a task needs; taking what is not free is a bug and throws kInternal.
  void take(WorkerId id, DeviceSet devices, const Needs& needs, bool launched = false);
  /// A member that was taken for runs.
  void launch(WorkerId id);
  void give_back(WorkerId id, DeviceSet devices, const Needs& needs, bool launched = false);

  [[nodiscard]] const Worker* find(WorkerId id) const;
  [[nodiscard]] const Worker& at(WorkerId id) const;
  /// Null when nobody has that name.
  [[nodiscard]] const Worker* find(std::string_view name) const;
  [[nodiscard]] std::size_t size() const;
  /// The most that some worker, open or not, has of each when empty, maybe each another one: what
  /// exceeds it never fits.
  [[nodiscard]] const Needs& largest() const;
  /// How many workers, open or not, could run it when empty; counts no further than `enough`.
  [[nodiscard]] std::size_t count_capable(const Needs& needs, std::size_t enough) const;

  /// Every worker, open or not, in natural order of names: what a policy of one's own walks over.
  [[nodiscard]] std::vector<const Worker*> all() const;

  /// Counts changes of workers. For a copy elsewhere, which asks what it has missed.
  [[nodiscard]] std::uint64_t version() const;
  struct Changes {
    bool whole = false;  ///< So much has changed that `workers` are all, and the copy starts anew.
    std::vector<const Worker*> workers{};  ///< That changed or came, as they are now.
    std::vector<WorkerId> removed{};       ///< Some of them may have come and gone in between.
  };
  /// Costs by the number of changes. 0 asks for all.
  [[nodiscard]] Changes changes_since(std::uint64_t version) const;
  /// Makes the worker of that id look like this one: how a copy follows.
  void mirror(const Worker& worker);

  /// The groups with `free` free devices. Never more than kMaxDevicesPerWorker + 1 such lists.
  [[nodiscard]] const std::map<WorkerGroup::Key, WorkerGroup>& groups_with_free(
      std::size_t free) const;
  /// Load (active tasks per device) as an exact fraction that compares by value.
  struct Load {
    std::uint32_t active = 0;
    std::uint32_t devices = 1;
    std::weak_ordering operator<=>(const Load& other) const {
      return std::uint64_t{active} * other.devices <=> std::uint64_t{other.active} * devices;
    }
    bool operator==(const Load& other) const { return (*this <=> other) == 0; }
  };
  /// Groups of equal load and equally many free devices, least load and most free devices first.
  using Spread = std::map<std::pair<Load, std::int64_t>, std::set<const WorkerGroup*>>;
  [[nodiscard]] const Spread& spread() const;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

}  // namespace harmonics::inline in_cluster
