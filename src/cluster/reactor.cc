#include <harmonics/cluster/reactor.h>

#include <algorithm>

#include <harmonics/base/error.h>

#include "decisions.h"
#include "reactor_parts.h"
#include "requests.h"
#include "worker_talk.h"

namespace harmonics::inline in_cluster {
namespace {

/// Ended tasks are forgotten in batches of this size, so that a fact is not a task.
constexpr std::size_t kForgetBatch = 1000;

/// Taken by the scheduler itself.
void decide(Decisions&, const PlanMade&) {}

/// One task at once, an array piece by piece.
void decide(Decisions& step, const CancelRequest& request, std::deque<Cancelling>& cancels) {
  Cancelling cancelling = begin_cancel(step, request);
  if (cancelling.end.value == cancelling.next.value + 1) {
    go_on_cancelling(step, cancelling, 1);
  } else {
    cancels.push_back(cancelling);
  }
}

void cancel_some(Decisions& step, std::deque<Cancelling>& cancels) {
  std::size_t left = kMaxCancelsPerStep;
  while (!cancels.empty() && left > 0) {
    left -= go_on_cancelling(step, cancels.front(), left);
    if (cancels.front().next == cancels.front().end) cancels.pop_front();
  }
}

template <typename Event, typename... Place>
void dispatch(Decisions& step, const Event& event, Place&... place) {
  if constexpr (requires { event.request; }) {
    try {
      decide(step, event, place...);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal || error.code() == ErrorCode::kDataLoss) throw;
      step.answer(event.request, Refusal{error.code(), error.what()});
    }
  } else {
    decide(step, event);
  }
}

/// What this server tells workers.
LeasesPromised promise_of(const ServerOptions& options) {
  return {options.lease, std::max(options.hold, options.lease)};
}

void end_backoffs(Decisions& step) {
  const auto& delayed = step.tables().delayed;
  while (!delayed.empty() && delayed.begin()->first <= step.now()) {
    step.record(TaskReady{delayed.begin()->second});
  }
}

/// What a store holds and no server that had the right time could have meant.
std::vector<TaskId> backoffs_after(const StateTables& tables, Time latest) {
  std::vector<TaskId> found;
  for (auto it = tables.delayed.rbegin(); it != tables.delayed.rend() && it->first > latest; ++it) {
    found.push_back(it->second);
  }
  return found;
}

void end_long_backoffs(Decisions& step, const std::vector<TaskId>& tasks) {
  for (const TaskId id : tasks) {
    const TaskRecord* task = step.tables().tasks.find(id);
    if (task != nullptr && std::holds_alternative<Delayed>(task->state)) step.record(TaskReady{id});
  }
}

void forget_oldest(Decisions& step) {
  const auto& ended = step.tables().ended;
  const auto too_much = [&] {
    return ended.size() >= step.options().keep_ended + kForgetBatch ||
           (step.tables().ended_file_bytes > 0 &&
            step.tables().file_bytes > step.options().keep_file_bytes);
  };
  while (too_much()) {
    TasksForgotten fact;
    for (const auto& [at, task] : ended) {
      if (fact.tasks.size() == kForgetBatch) break;
      fact.tasks.push_back(task);
    }
    step.record(std::move(fact));
  }
}

}  // namespace

ServerReactor::ServerReactor(ClusterState state, WorkloadPolicy& policy, ServerOptions options,
                             Time now, Outbox& out)
    : parts_(std::make_unique<Parts>(std::move(state), policy, options)) {
  Decisions step(parts_->state, parts_->sessions, parts_->options, now, out);
  step.record(TermStarted{parts_->term, now});
  if (step.tables().promised != parts_->promised) step.record(parts_->promised);
  if (parts_->promised != promise_of(options)) {
    parts_->promise_over = now + Sessions::with_drift(parts_->promised.hold, options);
  }
  for (const auto& [id, worker] : step.tables().workers) parts_->sessions.expect(id, now);
  const Time latest = now + parts_->options.max_backoff;
  parts_->long_backoffs = backoffs_after(step.tables(), latest);
  if (!parts_->long_backoffs.empty()) parts_->backoff_cap = latest;
}

ServerReactor::~ServerReactor() = default;

void ServerReactor::handle(const ServerEvent& event, Time now, Outbox& out) {
  const std::size_t facts = out.facts.size();
  Decisions step(parts_->state, parts_->sessions, parts_->options, now, out);
  if (const auto* plan = std::get_if<PlanMade>(&event)) {
    parts_->scheduler.plans().take(*plan);
  } else {
    const auto take = [&]<typename Event>(const Event& one) {
      if constexpr (std::is_same_v<Event, CancelRequest>) {
        dispatch(step, one, parts_->cancels);
      } else {
        dispatch(step, one);
      }
    };
    std::visit(take, event);
  }
  if (step.queue_freed(kMaxFreedPerStep)) parts_->changed(Sweep::Change::kAny);
  if (std::holds_alternative<SubmitRequest>(event)) {
    parts_->changed(Sweep::Change::kTasks);
  } else if (out.facts.size() != facts || !std::holds_alternative<WorkerSays>(event)) {
    parts_->changed(Sweep::Change::kAny);
  }
}

void ServerReactor::tick(Time now, Outbox& out) {
  const std::size_t facts = out.facts.size();
  Decisions step(parts_->state, parts_->sessions, parts_->options, now, out);
  for (const WorkerId worker : parts_->sessions.take_expired(now)) give_up_worker(step, worker);
  for (const WorkerId worker : parts_->sessions.take_overdue(now)) give_up_held(step, worker);
  const std::vector<WorkerId> rested = parts_->sessions.take_rested(now);
  for (const WorkerId worker : rested) step.refresh(worker);
  if (!rested.empty()) parts_->changed(Sweep::Change::kAny);
  if (parts_->promise_over <= now) {
    parts_->promise_over = kNever;
    step.record(promise_of(parts_->options));
  }
  cancel_some(step, parts_->cancels);
  step.end_doomed(kMaxDoomedPerStep);
  if (step.queue_freed(kMaxFreedPerStep)) parts_->changed(Sweep::Change::kAny);
  end_backoffs(step);
  if (parts_->backoff_cap <= now) {
    end_long_backoffs(step, std::exchange(parts_->long_backoffs, {}));
    parts_->backoff_cap = kNever;
  }
  forget_oldest(step);
  if (out.facts.size() != facts || parts_->scheduler.deadline() <= now) {
    parts_->changed(Sweep::Change::kAny);
  }
  // What is about to be cancelled must not start first.
  if (!parts_->cancels.empty()) return parts_->changed(Sweep::Change::kAny);
  if (!parts_->pass_due()) return;
  const Sweep::Change change = std::exchange(parts_->change, Sweep::Change::kNone);
  parts_->unfinished = parts_->scheduler.pass(step, change);
}

Time ServerReactor::deadline() const {
  const ClusterState& state = parts_->state;
  if (parts_->pass_due() || state.has_doomed() || state.has_freed()) return Time{};
  Time next = std::min({parts_->sessions.deadline(), parts_->scheduler.deadline(),
                        parts_->backoff_cap, parts_->promise_over});
  const std::optional<Time> ready = state.next_ready();
  return ready ? std::min(next, *ready) : next;
}

const ClusterState& ServerReactor::state() const { return parts_->state; }
const ServerOptions& ServerReactor::options() const { return parts_->options; }

SessionView ServerReactor::session(WorkerId worker) const {
  const SessionView* view = parts_->sessions.find(worker);
  return view == nullptr ? SessionView{} : *view;
}

}  // namespace harmonics::inline in_cluster
