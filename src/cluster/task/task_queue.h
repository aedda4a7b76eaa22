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
/// No task of a lane of that limit has a shorter one.
[[nodiscard]] std::uint32_t shortest_of_lane(std::uint32_t limit_s);
[[nodiscard]] LaneKey lane_of(const Submission& submission, std::uint32_t level);

/// All that one user has waiting of a priority.
struct CrowdKey {
  std::int32_t order = 0;  ///< The negative of the priority: larger ones come first.
  std::string user{};
  auto operator<=>(const CrowdKey&) const = default;
};
[[nodiscard]] CrowdKey crowd_of(const LaneKey& lane);

/// The lanes whose tasks need the same, whoever's they are and however long they take.
struct QueuedKind {
  std::map<std::uint32_t, std::size_t> limits{};  ///< How many lanes have that `limit_s`.
  std::size_t special = 0;                        ///< Lanes that have variants or are a pipeline.
};

class TaskQueue {
 public:
  /// What one machine must give, and how many of them.
  using Kinds = std::map<std::pair<Needs, std::uint32_t>, QueuedKind>;
  using Lanes = std::map<LaneKey, IdRanges>;
  /// The lanes of a group by their first tasks. A group is what one user has waiting of a priority
  /// and level: its lanes stand in line together.
  using Fronts = std::map<TaskId, const LaneKey*>;
  /// The groups of a crowd by level. None of them empty.
  using Groups = std::map<std::uint32_t, Fronts>;
  /// None of them empty.
  using Crowds = std::map<CrowdKey, Groups>;

  void add(const LaneKey& lane, TaskId first, TaskId last);
  void remove(const LaneKey& lane, TaskId id);

  [[nodiscard]] const Lanes& lanes() const { return lanes_; }
  /// A group stays in its place until its last task has gone, and so does a crowd.
  [[nodiscard]] const Crowds& crowds() const { return crowds_; }
  /// The group of that lane; null where it has none.
  [[nodiscard]] const Fronts* find_group(const LaneKey& lane) const;
  /// Those that some lane has.
  [[nodiscard]] const Kinds& kinds() const { return kinds_; }
  /// How many tasks have a higher priority, or the same and a smaller id.
  [[nodiscard]] std::uint64_t count_before(const TaskRecord& task) const;

 private:
  void leave_group(const LaneKey& lane, TaskId front);
  void join_group(const LaneKey& lane, TaskId front);

  void count_kind(const LaneKey& lane);
  void forget_kind(const LaneKey& lane);

  Lanes lanes_;  ///< None of them empty.
  Crowds crowds_;
  Kinds kinds_;
};

}  // namespace harmonics::inline in_cluster
