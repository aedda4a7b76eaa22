// The server's decisions: (state, event, now) in, facts and effects out. No thread, clock or I/O.
//
// The loop around it:
//   for each waiting event: reactor.handle(event, now, out)
//   reactor.tick(now, out)                  expiries, then one pass over the queue
//   store.append(out.facts)                 durable: one group commit for the whole batch; also
//   when
//                                           there are none, to be sure that this server still leads
//   carry out out.effects, in order         only now is anything acknowledged or sent
//   sleep until the next event or reactor.deadline()
// When the store fails the process must go down: the memory is ahead of the disk, and a restart
// reads back what is true.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <harmonics/cluster/cluster_state.h>
#include <harmonics/cluster/effect.h>
#include <harmonics/cluster/event.h>
#include <harmonics/cluster/policy.h>

namespace harmonics::inline in_cluster {

/// Durations and ceilings of a server.
struct ServerOptions {
  Nanoseconds lease = std::chrono::seconds(30);
  Nanoseconds heartbeat = std::chrono::seconds(5);
  /// How far a worker's clock may run behind the server's over one lease; over a hold in
  /// proportion.
  Nanoseconds drift = std::chrono::seconds(3);
  /// How long a worker that hears nothing goes on with tasks that continue; at least the lease.
  Nanoseconds hold = std::chrono::minutes(15);
  Nanoseconds stop_grace = std::chrono::seconds(5);
  /// A failed attempt waits this long before the next, twice as long after each further failure.
  Nanoseconds backoff = std::chrono::seconds(1);
  Nanoseconds max_backoff = std::chrono::minutes(5);
  /// A worker that is unable to start tasks gets none for so long, twice as long each further time.
  Nanoseconds rest = std::chrono::seconds(1);
  Nanoseconds max_rest = std::chrono::minutes(1);
  std::uint32_t max_preemptions = 16;  ///< From then on it is left alone.
  std::size_t max_tasks = 2'000'000;
  std::size_t keep_ended = 1'000'000;  ///< Ended tasks beyond that are forgotten, oldest first.
  /// Ended tasks are forgotten too, oldest first, while the files of all tasks take more than this.
  std::uint64_t keep_file_bytes = std::uint64_t{512} << 20;
  std::size_t max_starts_per_tick = 4096;
};

/// Why a task is not running, for people and scripts.
struct WhyPending {
  enum class Reason {
    kNotPending,    ///< It runs or has ended.
    kDependencies,  ///< Waits for other tasks.
    kBackoff,       ///< Waits before its next attempt.
    kQuota,         ///< Its user has all that the quota allows.
    kImpossible,    ///< No worker that is known could ever run it.
    kNoWorkers,     ///< Those that could run it are away or draining.
    kUnable,        ///< Those that could run it are unable to start tasks for now.
    kReserved,      ///< It would delay the task at the head of the queue.
    kBusy,          ///< Those that could run it are busy; others are before it.
    kPlanning,      ///< The plan of its stages is being made.
    kPolicy,        ///< It fits, but the policy in use gives it no place.
    kTurn,          ///< It fits; whether it starts shows when its turn comes, in the next passes.
    kNext,          ///< It fits and starts in the next pass.
  };
  Reason reason = Reason::kNext;
  std::string text;  ///< One or two full sentences.
  /// How many pending tasks have a higher priority, or the same and came earlier.
  std::uint64_t before = 0;
  std::vector<WorkerId> workers{};  ///< kReserved: those with room that is kept for others.
};
[[nodiscard]] std::string_view to_string(WhyPending::Reason reason);

/// What a worker was unable to do of late. It rests, then gets one task at a time until it has
/// started half as many in a row as it was unable to.
struct Inability {
  std::uint32_t times = 0;  ///< 0: it starts what it is given.
  Time until{};             ///< It gets no task before; 0: its rest is over.
  bool trying = false;      ///< The one task that it was given has neither started nor ended.
  std::string reason{};

  /// It gets no tasks for now.
  [[nodiscard]] bool resting() const { return trying || until != Time{}; }
};

/// A worker's session as the server sees it; not a fact, gone after a restart.
struct SessionView {
  bool met = false;  ///< It has said hello to this server.
  bool connected = false;
  Epoch epoch;
  Time heard{};          ///< When its last message came; at a restart, when the server started.
  bool expired = false;  ///< Lease + drift have passed in silence; what stops then is given up.
  Time hold_over{};      ///< When what continues is given up; 0: it was, or nothing expired.
  Inability unable{};
};

/// Owned by one thread. `policy` must outlive it and is asked only for new placements.
class ServerReactor {
 public:
  /// `state` is what the store gave back. Records the start of a new term: append `out` before all
  /// else. Every known worker gets a full lease + drift from `now` to come back, and what continues
  /// there a full hold: the time in which there was no server counts against nobody.
  ServerReactor(ClusterState state, WorkloadPolicy& policy, ServerOptions options, Time now,
                Outbox& out);
  ~ServerReactor();
  ServerReactor(const ServerReactor&) = delete;
  ServerReactor& operator=(const ServerReactor&) = delete;

  /// Appends to `out`. Never throws for what an event says: a bad request is answered with a
  /// `Refusal`, a stale message is dropped.
  void handle(const ServerEvent& event, Time now, Outbox& out);
  /// Gives up expired leases, ends back-offs and, piece by piece, what waits for tasks that did not
  /// succeed; then starts what can start.
  void tick(Time now, Outbox& out);
  /// When `tick` has something to do even if no event comes; kNever if not.
  [[nodiscard]] Time deadline() const;

  [[nodiscard]] const ClusterState& state() const;
  [[nodiscard]] const ServerOptions& options() const;
  [[nodiscard]] SessionView session(WorkerId worker) const;
  /// What holds at this moment, and nothing that does not. Throws kNotFound for an unknown task.
  [[nodiscard]] WhyPending why(TaskId task, Time now) const;

 private:
  [[nodiscard]] WhyPending why_active(const TaskRecord& task, Time now) const;
  [[nodiscard]] WhyPending why_queued(const TaskRecord& task, Time now) const;
  [[nodiscard]] WhyPending why_with_room(const TaskRecord& task, Time now) const;
  /// The same, with the workers that could run it but are unable to start tasks for now.
  [[nodiscard]] WhyPending with_resting(WhyPending why, const TaskRecord& task, Time now) const;

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_cluster
