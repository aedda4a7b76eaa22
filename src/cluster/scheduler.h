// One pass over the queue: who starts now, and where.
//
// Order: higher priority first; within a priority the user who holds the least for their weight;
// then the oldest task. The first task that finds no place is the head: it gets a reservation, and
// what comes after it may start only where that cannot delay it. A pass that has looked at enough
// in vain stops, and the next one goes on from there after it has looked at the first again: so a
// pass is short, and yet every lane has its turn.
#pragma once

#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/cluster/policy.h>

#include "decisions.h"
#include "plan_desk.h"
#include "reservation.h"
#include "turns.h"

namespace harmonics::inline in_cluster {

/// How many steps in vain a pass takes: a lane that finds no place is one step, asking the policy
/// for it is `ask` more.
struct VainSteps {
  std::size_t most = 0;
  std::size_t ask = 0;
};
/// From the head of the line, in every pass: few, since they are the same again and again.
inline constexpr VainSteps kHeadSteps{400, 1};
/// And from where the last pass stopped: as few questions, but many lanes that need none.
inline constexpr VainSteps kSweepSteps{20'000, 100};
/// So many steps in vain after a start, and then so many times as many again, a pass looks whether
/// anything of what waits could start at all.
inline constexpr std::size_t kFirstProof = 4;
inline constexpr std::size_t kProofStep = 4;
/// Unless more kinds of tasks wait than these.
inline constexpr std::size_t kMaxProofKinds = 256;

class Scheduler {
 public:
  explicit Scheduler(WorkloadPolicy& policy);

  /// Starts what can start. True when it stopped early and another pass must follow.
  bool pass(Decisions& step, Sweep::Change change);
  /// Whether the policy is known to give a place to everything that fits.
  [[nodiscard]] bool gives_all() const { return built_in_; }
  /// Who goes first in a pass at that moment.
  [[nodiscard]] Ranking ranking(Time now) const {
    return {policy_, now, reservation_ ? reservation_->head : TaskId{}};
  }
  /// When another pass is worth its while although nothing happens; kNever if not.
  [[nodiscard]] Time deadline() const { return relook_; }

  /// The head of the queue of the last pass, if it had to wait, and the workers kept for it.
  struct Reservation {
    TaskId head{};
    std::vector<WorkerId> workers;
    std::uint32_t variant = 0;  ///< Of the head, for which room is kept.
  };
  [[nodiscard]] const std::optional<Reservation>& reservation() const { return reservation_; }
  /// The workers that the last pass kept for plans in the making.
  [[nodiscard]] const std::vector<WorkerId>& held() const { return held_; }
  [[nodiscard]] PlanDesk& plans() { return plans_; }
  [[nodiscard]] const PlanDesk& plans() const { return plans_; }

 private:
  [[nodiscard]] Ranking ranking(const Decisions& step) const { return ranking(step.now()); }
  void take_turns(Decisions& step, Line& line, const VainSteps& steps);
  void keep_head(Decisions& step, Line& line);
  bool take_turn(Decisions& step, const LaneKey& lane, const TaskRecord& task);
  PlanDesk::Turn take_pipeline_turn(Decisions& step, const LaneKey& lane, const TaskRecord& task);
  bool try_start(Decisions& step, const LaneKey& lane, const TaskRecord& task);
  bool try_start(Decisions& step, const TaskRecord& task, const TaskSpec& spec,
                 std::uint32_t variant);
  [[nodiscard]] bool nothing_left(const Decisions& step);
  [[nodiscard]] bool is_blocked(const Decisions& step, const Needs& needs, std::uint32_t gang);
  [[nodiscard]] bool may_start_beside_head(const Decisions& step, const Needs& needs,
                                           const QueuedKind& kind);
  [[nodiscard]] bool is_homeless(const Decisions& step, const LaneKey& lane,
                                 const TaskSpec& spec) const;
  std::optional<std::vector<Member>> place(Decisions& step, const TaskSpec& spec);
  std::optional<Assignment> ask(Decisions& step, const TaskSpec& spec);
  std::optional<Member> place_beside_head(Decisions& step, const TaskSpec& spec);
  void reserve(Decisions& step, const TaskRecord& head);
  void preempt(Decisions& step, const TaskRecord& head);
  [[nodiscard]] bool holds(const Decisions& step, const TaskRecord& head) const;

  WorkloadPolicy& policy_;
  const bool built_in_;
  BalancedPolicy fallback_;
  Sweep sweep_;
  PlanDesk plans_;
  std::optional<Reservation> reservation_;
  // Of the pass under way: the head, the workers reserved for it, and what is known not to fit.
  const TaskRecord* head_ = nullptr;
  std::vector<Vacancy> vacancies_;
  std::vector<WorkerId> held_;  ///< For plans in the making.
  std::set<std::pair<Needs, std::uint32_t>> blocked_;
  std::set<Needs> beside_;       ///< Of those who found no place beside the head.
  std::vector<Needs> homeless_;  ///< No open worker could ever give that.
  std::size_t started_ = 0;
  std::size_t in_vain_ = 0;  ///< Steps,
  std::size_t asks_ = 0;     ///< and of them questions.
  TaskId looked_for_{};      ///< For whom victims were last looked for,
  Time looked_{};            ///< and when.
  Time relook_ = kNever;
  bool complained_ = false;
};

/// Whether one more task of that kind would pass the user's quota.
[[nodiscard]] bool over_quota(const UserRecord& user, const Needs& needs, std::uint32_t gang);

}  // namespace harmonics::inline in_cluster
