#include "worker_talk.h"

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_cluster {
namespace {

bool same_resources(const WorkerSpec& a, const WorkerSpec& b) {
  return a.devices == b.devices && a.cpus == b.cpus && a.memory_mb == b.memory_mb &&
         a.resources == b.resources;
}

std::vector<AttemptId> attempts_of(const Decisions& step, WorkerId worker) {
  const auto held = step.tables().attempts.find(worker);
  if (held == step.tables().attempts.end()) return {};
  return {held->second.begin(), held->second.end()};
}

/// The folder's part of an identity, which has the boot's behind it; empty if there is no such
/// part.
std::string_view folder_of(std::string_view identity) {
  const std::size_t at = identity.find('@');
  return at == identity.npos ? std::string_view{} : identity.substr(0, at);
}

/// Whether the two are lives of one worker, before and after its machine was started again.
bool other_boot(const WorkerSpec& a, const WorkerSpec& b) {
  const std::string_view folder = folder_of(a.identity);
  return !folder.empty() && folder == folder_of(b.identity) && a.identity != b.identity;
}

/// What the worker had is gone, whatever was promised for its absence.
void lose_all(Decisions& step, WorkerId worker) {
  const std::string name = step.tables().workers.at(worker).spec.name;
  for (const AttemptId id : attempts_of(step, worker)) {
    const std::optional<std::uint32_t> rank = step.live_rank(id, worker);
    if (!rank) continue;
    step.end_member(
        step.tables().known_task(id.task), *rank,
        {EndKind::kLost, 0, 0, format("the machine of worker '{}' was restarted", name)});
  }
}

/// Of a machine that was started again nothing can still run from before. Only of one that is
/// silent: two machines with copies of one folder are not taken for one.
void lose_past_lives(Decisions& step, const WorkerSpec& spec) {
  if (folder_of(spec.identity).empty()) return;
  for (const auto& [id, known] : step.tables().workers) {
    if (other_boot(known.spec, spec) && step.sessions().expired(id)) lose_all(step, id);
  }
}

/// The record that a hello means: by identity first, then by name. Throws `Error` for a refusal.
std::optional<WorkerId> find_known(Decisions& step, const WorkerSpec& spec) {
  const StateTables& tables = step.tables();
  const auto by_identity = tables.identities.find(spec.identity);
  if (by_identity != tables.identities.end()) {
    const std::string& name = tables.workers.at(by_identity->second).spec.name;
    if (!spec.name.empty() && spec.name != name) {
      fail(ErrorCode::kAlreadyExists,
           "this worker's state folder belongs to '{}', not '{}'; use another --state-dir", name,
           spec.name);
    }
    return by_identity->second;
  }
  lose_past_lives(step, spec);
  const Worker* by_name = spec.name.empty() ? nullptr : tables.pool.find(spec.name);
  if (by_name == nullptr) return std::nullopt;
  if (!step.sessions().expired(by_name->id) || !attempts_of(step, by_name->id).empty()) {
    fail(ErrorCode::kAlreadyExists,
         "the name '{}' is taken by another worker ({}); choose another --id, or wait until that "
         "one's lease has ended",
         spec.name, tables.workers.at(by_name->id).spec.address);
  }
  return by_name->id;
}

std::string free_name(const Decisions& step, WorkerId id) {
  for (std::uint32_t number = id.value;; ++number) {
    std::string name = format("worker-{}", number);
    if (step.tables().pool.find(name) == nullptr) return name;
  }
}

/// Finds or makes the worker's record. Throws `Error` for a refusal.
WorkerId admit(Decisions& step, const WorkerSpec& spec) {
  check_worker(spec);
  if (spec.identity.empty()) {
    fail(ErrorCode::kInvalidArgument, "worker: a hello without identity");
  }
  WorkerRecord record;
  record.spec = spec;
  record.since = step.now();
  if (const std::optional<WorkerId> known = find_known(step, spec)) {
    const WorkerRecord& old = step.tables().workers.at(*known);
    record.id = *known;
    record.draining = old.draining;
    record.since = old.since;
    record.spec.name = old.spec.name;
    if (!same_resources(old.spec, record.spec) && !attempts_of(step, *known).empty()) {
      fail(ErrorCode::kFailedPrecondition,
           "worker '{}' still has tasks on its former devices; start it with the same ones, or "
           "drain it first",
           old.spec.name);
    }
    if (old != record) step.record(WorkerRegistered{record});
    return record.id;
  }
  if (step.tables().workers.size() >= kMaxWorkers) {
    fail(ErrorCode::kResourceExhausted, "the server knows {} workers and takes no more",
         step.tables().workers.size());
  }
  record.id = step.tables().next_worker;
  if (record.spec.name.empty()) record.spec.name = free_name(step, record.id);
  step.record(WorkerRegistered{record});
  return record.id;
}

void take_end(Decisions& step, WorkerId worker, AttemptId id, const EndResult& result) {
  if (const std::optional<std::uint32_t> rank = step.live_rank(id, worker)) {
    EndResult kept = result;
    if (kept.message.size() > kMaxTaskTextBytes) kept.message.resize(kMaxTaskTextBytes);
    step.end_member(step.tables().known_task(id.task), *rank, std::move(kept));
  }
  step.send(worker, EndAckMessage{id});
}

/// An attempt that the server believes to be there, and what the worker says of it (maybe nothing).
void reconcile(Decisions& step, WorkerId worker, AttemptId id, const AttemptReport* report) {
  const std::optional<std::uint32_t> rank = step.live_rank(id, worker);
  if (!rank) return;
  const TaskRecord& task = step.tables().known_task(id.task);
  const Active& active = running(task);
  if (report != nullptr) {
    if (report->launched) step.launched(task, *rank);
    if (active.stopping) step.send(worker, StopMessage{id, *active.stopping});
    return;
  }
  if (active.members[*rank].launched) {
    step.end_member(task, *rank, {EndKind::kLost, 0, 0, "the worker's record of it is gone"});
  } else if (active.stopping) {
    step.end_member(task, *rank, {EndKind::kStopped, 0, 0, "stopped before it was started"});
  } else {
    step.send_start(task, *rank);
  }
}

struct Given {
  std::size_t up = 0;
  std::size_t kept = 0;
};

/// Ends those of the worker's attempts that wish for that when they are cut off.
Given give_up(Decisions& step, WorkerId worker, OnDisconnect wish, std::string_view why) {
  Given given;
  const std::string name = step.tables().workers.at(worker).spec.name;
  for (const AttemptId id : attempts_of(step, worker)) {
    const std::optional<std::uint32_t> rank = step.live_rank(id, worker);
    if (!rank) continue;
    const TaskRecord& task = step.tables().known_task(id.task);
    if (task.spec().on_disconnect != wish) {
      ++given.kept;
      continue;
    }
    ++given.up;
    step.end_member(task, *rank, {EndKind::kLost, 0, 0, format("worker '{}' {}", name, why)});
  }
  return given;
}

void hear(Decisions& step, const WorkerSays& event, const HeartbeatMessage& message) {
  step.send(event.worker, LeaseMessage{message.number});
}

void hear(Decisions& step, const WorkerSays& event, const LaunchedMessage& message) {
  const std::optional<std::uint32_t> rank = step.live_rank(message.id, event.worker);
  if (rank) step.launched(step.tables().known_task(message.id.task), *rank);
}

void hear(Decisions& step, const WorkerSays& event, const EndedMessage& message) {
  take_end(step, event.worker, message.id, message.result);
}

void hear(Decisions& step, const WorkerSays& event, const HelloMessage&) {
  // A second hello in one session is a confused worker: start over.
  step.sessions().close(event.worker);
  step.refresh(event.worker);
  step.effect(CloseSession{event.worker, event.epoch});
}

}  // namespace

void decide(Decisions& step, const WorkerHello& event) {
  WorkerId worker;
  try {
    worker = admit(step, event.hello.spec);
  } catch (const Error& error) {
    step.effect(RefuseSession{event.connection, error.what()});
    return;
  }
  const Epoch epoch = step.sessions().open(worker, step.now());
  step.effect(OpenSession{event.connection, worker, epoch});
  const ServerOptions& options = step.options();
  step.send(worker, WelcomeMessage{worker, step.tables().workers.at(worker).spec.name,
                                   options.lease, options.heartbeat, options.stop_grace,
                                   std::max(options.hold, options.lease)});
  std::map<AttemptId, const AttemptReport*> reports;
  for (const AttemptReport& report : event.hello.attempts) {
    if (report.ended) {
      take_end(step, worker, report.id, *report.ended);
    } else if (step.live_rank(report.id, worker)) {
      reports[report.id] = &report;
    } else {
      step.send(worker, StopMessage{report.id, StopReason::kUnknown});
    }
  }
  for (const AttemptId id : attempts_of(step, worker)) {
    const auto report = reports.find(id);
    reconcile(step, worker, id, report == reports.end() ? nullptr : report->second);
  }
  step.refresh(worker);
}

void decide(Decisions& step, const WorkerSays& event) {
  if (!step.sessions().current(event.worker, event.epoch)) {
    step.effect(CloseSession{event.worker, event.epoch});
    return;
  }
  step.sessions().heard(event.worker, step.now());
  std::visit([&](const auto& message) { hear(step, event, message); }, event.message);
}

void decide(Decisions& step, const WorkerGone& event) {
  if (!step.sessions().current(event.worker, event.epoch)) return;
  step.sessions().close(event.worker);
  step.refresh(event.worker);
}

void give_up_worker(Decisions& step, WorkerId worker) {
  const auto record = step.tables().workers.find(worker);
  if (record == step.tables().workers.end()) return;
  const SessionView* view = step.sessions().find(worker);
  if (view != nullptr && view->connected) {
    step.effect(CloseSession{worker, view->epoch});
    step.sessions().close(worker);
  }
  step.refresh(worker);
  const bool reborn = !attempts_of(step, worker).empty() &&
                      std::ranges::any_of(step.tables().workers, [&](const auto& entry) {
                        return other_boot(entry.second.spec, record->second.spec);
                      });
  if (reborn) lose_all(step, worker);
  const Given given = give_up(step, worker, OnDisconnect::kStop, "fell silent");
  step.note("worker '{}' fell silent for its lease and the drift: {} attempts given up, {} go on",
            record->second.spec.name, given.up, given.kept);
}

void give_up_held(Decisions& step, WorkerId worker) {
  const auto record = step.tables().workers.find(worker);
  if (record == step.tables().workers.end()) return;
  const Given given = give_up(step, worker, OnDisconnect::kContinue, "stayed away for its hold");
  if (given.up == 0) return;
  step.note("worker '{}' stayed away for its hold and the drift: {} attempts given up, {} go on",
            record->second.spec.name, given.up, given.kept);
}

}  // namespace harmonics::inline in_cluster
