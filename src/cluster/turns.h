// Whose turn it is in a pass over the queue, and where the next pass goes on.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "state_tables.h"

namespace harmonics::inline in_cluster {

/// Devices or tasks, whichever are more: what a user holds, to be divided by their weight.
[[nodiscard]] std::uint64_t held_by(const UserRecord& user);

/// The tasks of one user and priority, in line with those of others. A user's share can only grow
/// during a pass, since tasks only start, so a turn that is out of date moves back.
struct Turn {
  const std::pair<const std::pair<std::int32_t, std::string>, TaskQueue::Fronts>* group = nullptr;
  std::int32_t priority = 0;
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
  bool under_way_ = false;
  Change again_ = Change::kAny;  ///< What came since the sweep began.
  TaskId floor_{};               ///< Nobody below has to be looked at.
  TaskId horizon_{};             ///< Nor from here on: so each sweep ends.
  std::map<std::pair<std::int32_t, std::string>, TaskId> next_;  ///< Others are done.
  bool resuming_ = false;                                        ///< `next_` counts.
};

/// Higher priority first; then the user who holds the least for their weight; then the oldest.
class Line {
 public:
  explicit Line(const StateTables& tables);

  [[nodiscard]] bool empty() const { return turns_.empty(); }
  /// Whose turn it is.
  Turn take();
  /// The same user's next lane, if there is one: those whose first task is older had their turn.
  void next(Turn turn);
  /// From now on only what `sweep` has not looked at and has to.
  void resume(const Sweep& sweep);
  /// The group of that lane is gone.
  void forget(const LaneKey& lane);
  /// Those whose turn did not come.
  [[nodiscard]] std::vector<Turn> left();

 private:
  struct Later {
    bool operator()(const Turn& a, const Turn& b) const;
  };
  std::priority_queue<Turn, std::vector<Turn>, Later> turns_;
  TaskId end_{UINT64_MAX};
};

}  // namespace harmonics::inline in_cluster
