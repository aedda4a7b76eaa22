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
  std::string user{};
  Needs needs{};
  std::uint32_t gang = 1;
  std::uint32_t timeout_s = 0;  ///< What ends soon may start beside a reservation.
  TaskId pipeline{};  ///< Its first id: a pipeline without a plan must not hold up others. 0: none.
  auto operator<=>(const LaneKey&) const = default;
};
[[nodiscard]] LaneKey lane_of(const Submission& submission);

class TaskQueue {
 public:
  using Lanes = std::map<LaneKey, IdRanges>;
  /// The lanes of one user and priority by their first tasks.
  using Fronts = std::map<TaskId, const LaneKey*>;
  /// By falling priority and by user; none of them empty.
  using Groups = std::map<std::pair<std::int32_t, std::string>, Fronts>;

  void add(const Submission& submission, TaskId first, TaskId last);
  void remove(const Submission& submission, TaskId id);

  [[nodiscard]] const Lanes& lanes() const { return lanes_; }
  /// The first of each key is the priority's negative. A group stays in its place until its last
  /// task has gone.
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
