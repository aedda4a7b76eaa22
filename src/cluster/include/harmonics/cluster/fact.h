// What has been decided: stored before it is acted on, and all that a restart needs.
//
// `ClusterState::apply` is the only interpreter: the living server applies a fact when it decides
// it, a restarted one when it reads it back. A snapshot is a list of facts too (the *Kept ones).
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/cluster/cluster_records.h>

namespace harmonics::inline in_cluster {

/// A server took over; all epochs that it hands out carry this term.
struct TermStarted {
  Term term{};
  Time at{};
  bool operator==(const TermStarted&) const = default;
};
struct TasksSubmitted {
  std::shared_ptr<const Submission> submission{};
  bool operator==(const TasksSubmitted& other) const { return *submission == *other.submission; }
};
/// The next attempt of a pending task: its members hold their leases from here on.
struct AttemptStarted {
  AttemptId id{};
  std::vector<Member> members{};
  Time at{};
  bool operator==(const AttemptStarted&) const = default;
};
/// How the stages of a pipeline's attempt are placed; follows its start. For the workers, opaque
/// here.
struct AttemptPlanned {
  AttemptId id{};
  std::string plan{};
  bool measures = false;  ///< It only measures the model on its workers: then the task goes on.
  bool operator==(const AttemptPlanned&) const = default;
};
struct MemberLaunched {
  AttemptId id{};
  std::uint32_t rank = 0;
  bool operator==(const MemberLaunched&) const = default;
};
/// The devices of that member are free again.
struct MemberEnded {
  AttemptId id{};
  std::uint32_t rank = 0;
  EndResult result{};
  bool operator==(const MemberEnded&) const = default;
};
/// The server wants the attempt gone; it ends when its members have.
struct AttemptStopping {
  AttemptId id{};
  StopReason reason = StopReason::kCancelled;
  bool operator==(const AttemptStopping&) const = default;
};
/// Every member has ended and the task is to be tried again, not before `not_before`.
struct AttemptRequeued {
  enum class Reason : std::uint8_t { kFailure, kLoss, kPreemption, kMeasured, kUnable };
  AttemptId id{};
  Reason reason = Reason::kFailure;
  Time not_before{};
  bool operator==(const AttemptRequeued&) const = default;
};
/// The back-off of a delayed task is over.
struct TaskReady {
  TaskId task{};
  bool operator==(const TaskReady&) const = default;
};
struct CancelRequested {
  TaskId task{};
  bool operator==(const CancelRequested&) const = default;
};
struct TaskEnded {
  TaskId task{};
  TaskOutcome outcome = TaskOutcome::kSucceeded;
  std::optional<EndResult> last{};
  Time at{};
  bool operator==(const TaskEnded&) const = default;
};
/// Ended tasks beyond what is kept.
struct TasksForgotten {
  std::vector<TaskId> tasks{};
  bool operator==(const TasksForgotten&) const = default;
};
/// A new worker, or a known one that now describes itself otherwise.
struct WorkerRegistered {
  WorkerRecord worker{};
  bool operator==(const WorkerRegistered&) const = default;
};
struct WorkerDraining {
  WorkerId worker{};
  bool draining = true;
  bool operator==(const WorkerDraining&) const = default;
};
struct WorkerForgotten {
  WorkerId worker{};
  bool operator==(const WorkerForgotten&) const = default;
};
struct QuotaSet {
  std::string user{};
  Quota quota{};
  bool operator==(const QuotaSet&) const = default;
};

/// The longest lease and hold that a worker which is away may have been told.
struct LeasesPromised {
  Nanoseconds lease{};
  Nanoseconds hold{};
  bool operator==(const LeasesPromised&) const = default;
};

/// How long a task has run in attempts that were stopped for others, this one included. Before the
/// attempt is queued again, and in snapshots after its TaskKept.
struct RunCounted {
  TaskId task{};
  Nanoseconds ran{};
  bool operator==(const RunCounted&) const = default;
};

/// Tasks of one submission that have not ended have this priority from here on.
struct PriorityChanged {
  TaskId first{};
  std::uint32_t count = 1;
  std::int32_t priority = 0;
  bool operator==(const PriorityChanged&) const = default;
};

// What a snapshot is made of.
struct CountersKept {
  Term term{};
  TaskId next_task{};
  WorkerId next_worker{};
  bool operator==(const CountersKept&) const = default;
};
/// A task as it was; tasks of one submission follow each other and share it.
struct TaskKept {
  TaskRecord task{};
  bool operator==(const TaskKept&) const = default;
};
/// Where a kept task that is not active ran last, by gang rank. Follows its TaskKept.
struct PlacesKept {
  TaskId task{};
  std::vector<WorkerId> places{};
  bool operator==(const PlacesKept&) const = default;
};
/// Where an earlier attempt of a kept task ran. Follows its TaskKept, the oldest first.
struct PastPlacesKept {
  AttemptId id{};
  std::vector<WorkerId> places{};
  bool operator==(const PastPlacesKept&) const = default;
};

using Fact = std::variant<TermStarted, TasksSubmitted, AttemptStarted, MemberLaunched, MemberEnded,
                          AttemptStopping, AttemptRequeued, TaskReady, CancelRequested, TaskEnded,
                          TasksForgotten, WorkerRegistered, WorkerDraining, WorkerForgotten,
                          QuotaSet, CountersKept, TaskKept, PlacesKept, AttemptPlanned,
                          PastPlacesKept, LeasesPromised, RunCounted, PriorityChanged>;

}  // namespace harmonics::inline in_cluster
