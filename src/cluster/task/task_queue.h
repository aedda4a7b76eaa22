// Pending tasks in lanes: tasks of one user and priority that need the same for as long.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <harmonics/cluster/cluster_records.h>

#include "id_ranges.h"

namespace harmonics::inline in_cluster {

/// What the tasks of a lane, oldest first, have in common. If the first of them finds no place,
/// none does.
struct LaneKey {
  std::int32_t priority = 0;
  std::uint32_t level = 0;  ///< The policy's, of a task that has not waited yet.
  std::string user{};
  Needs needs{};
  std::uint32_t gang = 1;
  /// What ends soon may start beside a reservation: its time limit, a step of a few percent up.
  std::uint32_t limit_s = 0;
  TaskVariants variants{};
  TaskId pipeline{};  ///< Its first id: a pipeline without a plan must not hold up others. 0: none.
  auto operator<=>(const LaneKey&) const = default;
};
/// A time limit rounded up so that few differ: four steps for each doubling.
[[nodiscard]] std::uint32_t lane_limit(std::uint32_t timeout_s);
[[nodiscard]] LaneKey lane_of(const Submission& submission, std::uint32_t level);

/// The lanes of one user, priority and level, which stand in line together.
struct GroupKey {
  std::int32_t order = 0;  ///< The negative of the priority: larger ones come first.
  std::uint32_t level = 0;
  std::string user{};
  auto operator<=>(const GroupKey&) const = default;
};
[[nodiscard]] GroupKey group_of(const LaneKey& lane);

class TaskQueue {
 public:
  using Lanes = std::map<LaneKey, IdRanges>;
  /// The lanes of a group by their first tasks.
  using Fronts = std::map<TaskId, const LaneKey*>;
  /// None of them empty.
  using Groups = std::map<GroupKey, Fronts>;

  void add(const LaneKey& lane, TaskId first, TaskId last);
  void remove(const LaneKey& lane, TaskId id);

  [[nodiscard]] const Lanes& lanes() const { return lanes_; }
  /// A group stays in its place until its last task has gone.
  [[nodiscard]] const Groups& groups() const { return groups_; }
  /// How many tasks have a higher priority, or the same and a smaller id.
  [[nodiscard]] std::uint64_t count_before(const TaskRecord& task) const;

 private:
  void leave_group(const LaneKey& lane, TaskId front);
  void join_group(const LaneKey& lane, TaskId front);

  Lanes lanes_;  ///< None of them empty.
  Groups groups_;
};

}  // namespace harmonics::inline in_cluster
