// Whose turn it is in a pass over the queue, and where the next pass goes on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <harmonics/cluster/policy.h>

#include "state_tables.h"

namespace harmonics::inline in_cluster {

/// Devices or tasks, whichever are more: what a user holds, to be divided by their weight.
[[nodiscard]] std::uint64_t held_by(const UserRecord& user);

/// How the policy ranks tasks at this moment.
struct Ranking {
  WorkloadPolicy& policy;
  Time now{};
  /// Room is kept for it, so where shares come first no shorter task goes before it any more. 0:
  /// none.
  TaskId head{};
  /// Of a task that waits or runs.
  [[nodiscard]] std::uint32_t level(const TaskRecord& task) const;
  /// Whether tasks of a larger level make room.
  [[nodiscard]] bool displaces() const { return policy.rule() == OrderRule::kDisplaces; }
};

/// The tasks of one user, priority and level, in line with those of others. A user's share can only
/// grow during a pass, since tasks only start, so a turn that is out of date moves back.
struct Turn {
  const TaskQueue::Fronts* group = nullptr;
  std::int32_t priority = 0;
  std::uint32_t group_level = 0;
  std::uint32_t level = 0;  ///< Of the front, which has waited.
  const UserRecord* user = nullptr;
  std::uint64_t held = 0;
  TaskId front{};
  const LaneKey* lane = nullptr;
};

/// Which lanes the passes since a change have not looked at yet. Kept from pass to pass, so that
/// each lane has its turn however many find no place.
class Sweep {
 public:
  /// What a pass must take into account.
  enum class Change : std::uint8_t {
    kNone,   ///< Nothing new: the last pass stopped early.
    kTasks,  ///< Tasks came; whoever found no place before finds none now.
    kAny,    ///< Something ended, a worker came, a limit changed...
  };

  /// To be called as a pass begins.
  void begin(Change change, TaskId next_task);
  /// Where a turn goes on: at or after its front; nothing is left of it when that is past `end`.
  [[nodiscard]] TaskId resume(const Turn& turn) const;
  [[nodiscard]] TaskId end() const { return horizon_; }
  /// The pass is over, and these turns were not taken. True when another must follow at once.
  bool stop(const std::vector<Turn>& left);
  /// Another head, another reservation: whoever was looked at before must be looked at again.
  void widen() {
    if (resuming_ || floor_ != TaskId{}) again_ = Change::kAny;
  }

 private:
  /// From pass to pass; records of users stay where they are.
  using Group = std::tuple<std::int32_t, std::uint32_t, const UserRecord*>;
  [[nodiscard]] static Group group_of(const Turn& turn) {
    return {turn.priority, turn.group_level, turn.user};
  }

  bool under_way_ = false;
  Change again_ = Change::kAny;   ///< What came since the sweep began.
  TaskId floor_{};                ///< Nobody below has to be looked at.
  TaskId horizon_{};              ///< Nor from here on: so each sweep ends.
  std::map<Group, TaskId> next_;  ///< Others are done.
  bool resuming_ = false;         ///< `next_` counts.
};

/// Higher priority first; then by the policy's rule: the user who holds the least for their weight
/// and the smaller level; then the oldest.
///
/// Where shares come before levels, whoever holds more has no turn before whoever holds less has
/// had all of theirs: so a user's groups, of which there may be hundreds, are lined up only when
/// their turn may have come.
class Line {
 public:
  Line(const StateTables& tables, const Ranking& ranking);

  [[nodiscard]] bool empty();
  /// Whose turn it is.
  Turn take();
  /// The same user's next lane, if there is one: those whose first task is older had their turn.
  void next(Turn turn);
  /// From now on only what `sweep` has not looked at and has to. It outlives the line.
  void resume(const Sweep& sweep);
  /// Nobody who is left can start.
  void clear();
  /// That task of the group has started out of its turn, and the group may be gone.
  void started(const TaskQueue::Fronts* group, TaskId task, bool gone);
  /// Those whose turn did not come, in no order; they leave the line.
  [[nodiscard]] std::vector<Turn> left();

 private:
  /// The groups of a user and priority that are not lined up yet.
  struct Crowd {
    std::int32_t priority = 0;
    const UserRecord* user = nullptr;
    std::uint64_t held = 0;  ///< Or less.
  };
  struct Later {
    bool levels_first = false;
    bool operator()(const Turn& a, const Turn& b) const;
  };
  static bool waits_longer(const Crowd& a, const Crowd& b);
  [[nodiscard]] bool crowd_may_be_first() const;
  void line_up_first_crowd();
  /// Behind the heap, which the caller mends.
  void line_up(const Crowd& crowd);
  void line_up(const Crowd& crowd, const TaskQueue::Groups& groups);
  void push(const Turn& turn);
  /// Whether something is left of it; `turn` then goes on there.
  [[nodiscard]] bool go_on(Turn& turn) const;

  const StateTables& tables_;
  Ranking ranking_;
  Later later_;
  std::vector<Turn> turns_;    ///< A heap.
  std::vector<Crowd> crowds_;  ///< Likewise.
  const Sweep* sweep_ = nullptr;
  TaskId end_{UINT64_MAX};
};

}  // namespace harmonics::inline in_cluster
