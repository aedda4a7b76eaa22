// Pipelines between "it could start" and "here is its plan".
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "decisions.h"

namespace harmonics::inline in_cluster {

/// What the planner was asked for pending pipelines, and what it said. Not a fact: after a restart
/// it is asked again. Belongs to the scheduler; one thread.
class PlanDesk {
 public:
  enum class Turn {
    kStarted,
    kPlanning,  ///< The plan is in the making, and `held` are the workers that it is made for.
    kBlocked,   ///< Too few workers are free.
    kNoPlan,    ///< There is none for those that are free: it must not keep them from others.
    kEnded,     ///< No plan can ever be made: the task has failed.
  };

  /// Starts a pending pipeline whose plan is there and still fits; else asks for one, once for the
  /// same workers. `most` is how many workers its user may have.
  Turn take_turn(Decisions& step, const TaskRecord& task, std::size_t most);
  /// The workers that the last turn's plan is made for: nobody else should get them meanwhile.
  [[nodiscard]] const std::vector<WorkerId>& held() const { return held_; }

  /// An elastic pipeline that runs is planned again, with its own workers and those that are free,
  /// when these have changed; if the new plan is worth a move it is stopped, which saves it, and
  /// starts again from there.
  void look_for_better(Decisions& step);

  void take(const PlanMade& answer);
  /// Forgets tasks that no longer wait.
  void tidy(const StateTables& tables);
  /// Why there was no plan the last time; null when it was not asked or there was one.
  [[nodiscard]] const std::string* problem(TaskId task) const;
  /// Whether its plan is in the making.
  [[nodiscard]] bool planning(TaskId task) const;

 private:
  struct Entry {
    std::vector<WorkerId> asked;
    std::optional<PlanMade> answer;  ///< Nothing: still in the making.
  };
  bool start(Decisions& step, const TaskRecord& task, const PlanMade& plan);
  void find_elastic(const StateTables& tables);
  void weigh(Decisions& step, const TaskRecord& task);

  std::map<TaskId, Entry> entries_;
  std::vector<WorkerId> held_;
  std::map<TaskId, Entry> elastic_;  ///< Active elastic pipelines.
  bool elastic_known_ = false;       ///< Those that ran when the server started are in it.
};

/// How much shorter the period of a new plan must be to be worth a move.
inline constexpr double kWorthAMove = 0.85;

}  // namespace harmonics::inline in_cluster
