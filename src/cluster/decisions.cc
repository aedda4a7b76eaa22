#include "decisions.h"

#include <algorithm>

#include <harmonics/base/check.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_cluster {
namespace {

bool lost(EndKind kind) { return kind == EndKind::kLost || kind == EndKind::kLeaseLost; }

/// Whether the loss of this attempt leaves it another.
bool may_be_lost_again(const TaskRecord& task) {
  const std::uint32_t limit = task.spec().max_losses;
  return limit == kUnlimitedLosses || task.losses + 1 < limit;
}

/// The member that tells why the attempt ended: one that could not be started, else one that
/// neither succeeded nor was told to stop.
const EndResult& cause(const Active& active) {
  const auto unable = [](const Member& member) { return member.ended->kind == EndKind::kUnable; };
  const auto own = [](const Member& member) {
    return member.ended->kind != EndKind::kSucceeded && member.ended->kind != EndKind::kStopped;
  };
  const auto stopped = [](const Member& member) { return member.ended->kind == EndKind::kStopped; };
  auto found = std::ranges::find_if(active.members, unable);
  if (found == active.members.end()) found = std::ranges::find_if(active.members, own);
  if (found == active.members.end()) found = std::ranges::find_if(active.members, stopped);
  if (found == active.members.end()) found = active.members.begin();
  return *found->ended;
}

}  // namespace

void Decisions::record(Fact fact) {
  std::visit([&](const auto& one) { tables_.apply(one); }, fact);
  out_.facts.push_back(std::move(fact));
}

void Decisions::send(WorkerId worker, ServerMessage message) {
  const SessionView* view = sessions_.find(worker);
  if (view == nullptr || !view->connected) return;
  effect(SendToWorker{worker, view->epoch, std::move(message)});
}

void Decisions::start(const TaskRecord& task, std::vector<Member> members) {
  const AttemptId id{task.id, {task.attempts.value + 1}};
  record(AttemptStarted{id, std::move(members), now_});
  give_out(task);
}

void Decisions::start(const TaskRecord& task, std::vector<Member> members, const PlanMade& plan) {
  const AttemptId id{task.id, {task.attempts.value + 1}};
  record(AttemptStarted{id, std::move(members), now_});
  record(AttemptPlanned{id, plan.plan, plan.measures});
  give_out(task);
}

// A worker that was unable to start tasks closes with the one that it is given now.
void Decisions::give_out(const TaskRecord& task) {
  const std::vector<Member>& members = running(task).members;
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    send_start(task, rank);
    if (sessions_.give(members[rank].worker)) refresh(members[rank].worker);
  }
}

void Decisions::send_start(const TaskRecord& task, std::uint32_t rank) {
  const Active& active = running(task);
  HARMONICS_CHECK(rank < active.members.size(), "task {} has no rank {}", task.id.value, rank);
  const Member& member = active.members[rank];
  const SessionView* view = sessions_.find(member.worker);
  if (view == nullptr || !view->connected) return;
  StartMessage message;
  message.id = {task.id, task.attempts};
  // Shares the submission's life, so that nothing is copied.
  message.spec = std::shared_ptr<const TaskSpec>(task.submission, &task.submission->spec);
  if (!task.spec().variants.empty()) {
    message.spec = std::make_shared<const TaskSpec>(with_variant(task.spec(), member.variant));
  }
  message.user = task.submission->user;
  message.array_index = task.array_index();
  message.gang_rank = rank;
  message.devices = member.devices;
  message.plan = active.plan;
  if (active.members.size() > 1 || task.spec().pipeline) {
    for (const Member& peer : active.members) {
      const auto known = tables_.workers.find(peer.worker);
      if (known == tables_.workers.end()) {
        message.peers.push_back({});  // It has ended there, and the worker was forgotten since.
      } else {
        message.peers.push_back({known->second.spec.name, known->second.spec.address});
      }
    }
  }
  send(member.worker, std::move(message));
}

void Decisions::stop(const TaskRecord& task, StopReason reason) {
  const AttemptId id{task.id, task.attempts};
  HARMONICS_CHECK(!running(task).members.empty(), "task {} runs nowhere", task.id.value);
  record(AttemptStopping{id, reason});
  for (const Member& member : running(task).members) {
    if (!member.ended) send(member.worker, StopMessage{id, reason});
  }
}

void Decisions::launched(const TaskRecord& task, std::uint32_t rank) {
  if (running(task).members[rank].launched) return;
  record(MemberLaunched{{task.id, task.attempts}, rank});
  judge(running(task).members[rank].worker, {});
}

// What the end of an attempt, or its start (a success so far), says of the worker.
void Decisions::judge(WorkerId worker, const EndResult& result) {
  if (result.kind == EndKind::kUnable) {
    if (sessions_.unable(worker, result.message, now_)) {
      const Nanoseconds rest = sessions_.find(worker)->unable.until - now_;
      note("worker '{}' is unable to start tasks ({}): none for {} s",
           tables_.workers.at(worker).spec.name, result.message,
           std::chrono::ceil<std::chrono::seconds>(rest).count());
    }
  } else {
    const bool started = result.kind != EndKind::kStopped && !lost(result.kind);
    if (!sessions_.tried(worker, started)) return;
  }
  refresh(worker);
}

void Decisions::end_member(const TaskRecord& task, std::uint32_t rank, EndResult result) {
  const AttemptId id{task.id, task.attempts};
  const bool success = result.kind == EndKind::kSucceeded;
  HARMONICS_CHECK(rank < running(task).members.size(), "task {} has no rank {}", task.id.value,
                  rank);
  // One that had been started before says nothing of how the worker is now.
  const Member& member = running(task).members[rank];
  if (!member.launched) judge(member.worker, result);
  record(MemberEnded{id, rank, std::move(result)});
  const Active& active = running(task);
  const bool all =
      std::ranges::all_of(active.members, [](const Member& m) { return m.ended.has_value(); });
  if (all) {
    settle(task);
  } else if (!success && !active.stopping) {
    stop(task, StopReason::kGangPeer);
  }
}

// Every member has ended: what becomes of the task.
void Decisions::settle(const TaskRecord& task) {
  const Active& active = running(task);
  const AttemptId id{task.id, task.attempts};
  HARMONICS_CHECK(
      std::ranges::all_of(active.members, [](const Member& m) { return m.ended.has_value(); }),
      "task {} is settled while it runs", task.id.value);
  EndResult why = cause(active);
  if (why.kind == EndKind::kSucceeded && active.measures && !task.cancelled) {
    record(AttemptRequeued{id, AttemptRequeued::Reason::kMeasured, Time{}});
  } else if (why.kind == EndKind::kSucceeded) {
    end_task(task.id, TaskOutcome::kSucceeded, why);
  } else if (task.cancelled) {
    end_task(task.id, TaskOutcome::kCancelled, why);
  } else if (active.stopping == StopReason::kPreempted && why.kind == EndKind::kStopped) {
    // A server that started anew may have a clock that is behind.
    record(RunCounted{task.id, task.ran + std::max(now_ - active.since, Nanoseconds{})});
    record(AttemptRequeued{id, AttemptRequeued::Reason::kPreemption, Time{}});
  } else if (why.kind == EndKind::kUnable) {
    record(AttemptRequeued{id, AttemptRequeued::Reason::kUnable, Time{}});
  } else if (lost(why.kind) && may_be_lost_again(task)) {
    record(AttemptRequeued{id, AttemptRequeued::Reason::kLoss, Time{}});
  } else if (lost(why.kind)) {
    add_item(why.message, format("it was lost {} times, its limit (max_losses)", task.losses + 1),
             "; ");
    end_task(task.id, TaskOutcome::kFailed, why);
  } else if (task.failures < task.spec().max_retries) {
    const Time until = now_ + backoff(task.failures);
    record(AttemptRequeued{id, AttemptRequeued::Reason::kFailure, until});
  } else {
    end_task(task.id, TaskOutcome::kFailed, why);
  }
}

Nanoseconds Decisions::backoff(std::uint32_t failures) const {
  const std::uint32_t doublings = std::min(failures, 30U);
  const Nanoseconds longest = options_.max_backoff;
  if (options_.backoff > longest / (std::int64_t{1} << doublings)) return longest;
  return options_.backoff * (std::int64_t{1} << doublings);
}

void Decisions::end_task(TaskId task, TaskOutcome outcome, std::optional<EndResult> last) {
  record(TaskEnded{task, outcome, std::move(last), now_});
}

void Decisions::end_doomed(std::size_t limit) {
  // What ends here may doom others, which come behind.
  for (std::size_t looked = 0; looked < limit && !tables_.doomed.empty(); ++looked) {
    TaskSpan& first = tables_.doomed.front();
    const TaskId id{first.next.value++};
    if (first.next == first.end) tables_.doomed.pop_front();
    const TaskRecord* task = tables_.tasks.find(id);
    if (task == nullptr || !std::holds_alternative<Waiting>(task->state)) continue;
    end_task(id, TaskOutcome::kDependencyFailed, std::nullopt);
  }
}

bool Decisions::queue_freed(std::size_t limit) { return tables_.free_some(limit) > 0; }

std::optional<std::uint32_t> Decisions::live_rank(AttemptId id, WorkerId worker) const {
  const TaskRecord* task = tables_.tasks.find(id.task);
  if (task == nullptr || task->attempts != id.attempt) return std::nullopt;
  const Active* active = std::get_if<Active>(&task->state);
  if (active == nullptr) return std::nullopt;
  for (std::uint32_t rank = 0; rank < active->members.size(); ++rank) {
    const Member& member = active->members[rank];
    if (member.worker == worker && !member.ended) return rank;
  }
  return std::nullopt;
}

std::uint32_t Decisions::gang_of(const TaskRecord& task) const {
  const TaskSpec& spec = task.spec();
  if (!spec.pipeline || task.attempts.value == 0) return spec.gang;
  std::uint32_t left = 0;
  for (const auto& [id, worker] : tables_.workers) {
    if (left < spec.gang && available(id) && could_ever_run(worker.spec, spec)) ++left;
  }
  return std::max<std::uint32_t>(1, left);
}

bool Decisions::available(WorkerId worker) const {
  const SessionView* view = sessions_.find(worker);
  const auto record = tables_.workers.find(worker);
  return view != nullptr && view->connected && record != tables_.workers.end() &&
         !record->second.draining && !sessions_.resting(worker);
}

void Decisions::refresh(WorkerId worker) {
  if (tables_.pool.find(worker) == nullptr) return;
  tables_.pool.set_open(worker, available(worker));
}

}  // namespace harmonics::inline in_cluster
