// One step of the server: what may be decided, each decision with its facts and effects.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/cluster/reactor.h>

#include "sessions.h"
#include "state_tables.h"

namespace harmonics::inline in_cluster {

/// Lives for one event or tick. Every change of the state goes through `record`.
class Decisions {
 public:
  Decisions(ClusterState& state, Sessions& sessions, const ServerOptions& options, Time now,
            Outbox& out)
      : tables_(*state.tables_), sessions_(sessions), options_(options), now_(now), out_(out) {}

  [[nodiscard]] const StateTables& tables() const { return tables_; }
  [[nodiscard]] Sessions& sessions() { return sessions_; }
  [[nodiscard]] const ServerOptions& options() const { return options_; }
  [[nodiscard]] Time now() const { return now_; }

  /// Applies the fact and has it stored.
  void record(Fact fact);
  void effect(ServerEffect effect) { out_.effects.push_back(std::move(effect)); }
  template <typename... Args>
  void note(FormatString<Args...> text, Args&&... args) {
    effect(Note{format(text, std::forward<Args>(args)...)});
  }
  void answer(RequestId request, decltype(Answer::reply) reply) {
    effect(Answer{request, std::move(reply)});
  }
  /// To the worker's current session; nothing when it is away (its next hello settles it).
  void send(WorkerId worker, ServerMessage message);

  /// Starts the next attempt of a pending task on these members.
  void start(const TaskRecord& task, std::vector<Member> members);
  /// The same for a pipeline.
  void start(const TaskRecord& task, std::vector<Member> members, const PlanMade& plan);
  /// Tells (again) the member of that rank to start.
  void send_start(const TaskRecord& task, std::uint32_t rank);
  /// Asks all members that run to stop; the attempt ends when they have.
  void stop(const TaskRecord& task, StopReason reason);
  void launched(const TaskRecord& task, std::uint32_t rank);
  /// A member has ended: maybe its peers must, maybe the attempt has, maybe the task.
  void end_member(const TaskRecord& task, std::uint32_t rank, EndResult result);
  /// Ends a task that does not run. Those that can never start now are doomed.
  void end_task(TaskId task, TaskOutcome outcome, std::optional<EndResult> last);
  /// Ends up to so many tasks that can never start.
  void end_doomed(std::size_t limit);
  /// Queues up to so many tasks that wait for nothing any more; whether there were any.
  bool queue_freed(std::size_t limit);
  /// The rank that the worker has in the task's current attempt and that has not ended.
  [[nodiscard]] std::optional<std::uint32_t> live_rank(AttemptId id, WorkerId worker) const;

  /// How many workers the next attempt needs: the gang, or for a pipeline that has run before at
  /// most as many as are left that could run it.
  [[nodiscard]] std::uint32_t gang_of(const TaskRecord& task) const;

  /// Whether the worker may get tasks, as far as sessions, its health and draining tell.
  [[nodiscard]] bool available(WorkerId worker) const;
  /// Makes the pool follow `available`.
  void refresh(WorkerId worker);
  /// Keeps a worker from the policy for a while.
  void set_aside(WorkerId worker) { tables_.pool.set_open(worker, false); }

 private:
  void give_out(const TaskRecord& task);
  void judge(WorkerId worker, const EndResult& result);
  void settle(const TaskRecord& task);
  [[nodiscard]] Nanoseconds backoff(std::uint32_t failures) const;

  StateTables& tables_;
  Sessions& sessions_;
  const ServerOptions& options_;
  Time now_;
  Outbox& out_;
};

}  // namespace harmonics::inline in_cluster
