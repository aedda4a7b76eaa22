#include "requests.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/cluster/task_files.h>
#include <harmonics/cluster/task_params.h>

#include "advice.h"

namespace harmonics::inline in_cluster {
namespace {

void need_admin(const Caller& caller, std::string_view what) {
  if (caller.admin) return;
  fail(ErrorCode::kPermissionDenied, "'{}' may not {}: that needs the role admin", caller.user,
       what);
}

const WorkerRecord& find_worker(Decisions& step, const std::string& name) {
  const Worker* worker = step.tables().pool.find(name);
  if (worker == nullptr) {
    fail(ErrorCode::kNotFound, "no worker '{}'; `harmonics workers` lists them", name);
  }
  return step.tables().workers.at(worker->id);
}

void check_dependencies(const StateTables& tables, const TaskSpec& spec) {
  for (const TaskId id : spec.depends_on) {
    const TaskRecord* task = tables.tasks.find(id);
    const auto array = tables.arrays.find(id);
    const bool partly = array != tables.arrays.end() && task != nullptr &&
                        array->second.kept != task->spec().count();
    if (task == nullptr || partly) {
      fail(ErrorCode::kNotFound, "depends_on: there is no task {} (or it ended long ago)",
           id.value);
    }
    const Ended* ended = std::get_if<Ended>(&task->state);
    const bool failed = array != tables.arrays.end()
                            ? array->second.unsuccessful > 0
                            : ended != nullptr && ended->outcome != TaskOutcome::kSucceeded;
    if (failed) {
      fail(ErrorCode::kFailedPrecondition,
           "depends_on: task {} did not succeed, so this one could never start", id.value);
    }
  }
}

void check_room(const Decisions& step, const SubmitRequest& request) {
  const StateTables& tables = step.tables();
  const std::uint64_t count = request.spec.count();
  if (tables.tasks.size() + count > step.options().max_tasks) {
    fail(ErrorCode::kResourceExhausted,
         "the server keeps {} tasks and takes at most {}; wait until some have ended",
         tables.tasks.size(), step.options().max_tasks);
  }
  // Those of ended tasks go when there are too many; what is left belongs to tasks that need it.
  const std::uint64_t most = 2 * step.options().keep_file_bytes;
  if (!request.spec.files.empty() && tables.file_bytes + file_bytes(request.spec) > most) {
    fail(ErrorCode::kResourceExhausted,
         "the server holds {} MiB of files that came with tasks and takes at most {}; wait until "
         "some have ended, or put the files where the workers can read them",
         tables.file_bytes >> 20, most >> 20);
  }
  const auto user = tables.users.find(request.caller.user);
  if (user == tables.users.end() || user->second.quota.max_waiting == 0) return;
  const Quota& quota = user->second.quota;
  if (user->second.waiting + count > quota.max_waiting) {
    fail(ErrorCode::kResourceExhausted,
         "user '{}' has {} tasks waiting and may have at most {}; wait until some have started",
         request.caller.user, user->second.waiting, quota.max_waiting);
  }
}

void cancel_one(Decisions& step, TaskId id) {
  const TaskRecord* task = step.tables().tasks.find(id);
  if (task == nullptr || std::holds_alternative<Ended>(task->state) || task->cancelled) return;
  const Active* active = std::get_if<Active>(&task->state);
  if (active == nullptr) {
    step.end_task(id, TaskOutcome::kCancelled, std::nullopt);
    return;
  }
  step.record(CancelRequested{id});
  step.stop(*task, StopReason::kCancelled);
}

}  // namespace

void decide(Decisions& step, const SubmitRequest& request) {
  check_task(request.spec);
  check_artifacts(request.spec);
  check_params(request.spec);
  check_files(request.spec);
  if (request.spec.pipeline) check_inference(*request.spec.pipeline);
  if (request.caller.user.empty() || request.caller.user.size() > kMaxTaskNameBytes) {
    fail(ErrorCode::kInvalidArgument, "a user's name has 1 to {} bytes", kMaxTaskNameBytes);
  }
  const TaskSpec& spec = request.spec;
  if (!spec.idempotency_key.empty()) {
    const auto known = step.tables().keys.find(key_of(request.caller.user, spec.idempotency_key));
    if (known != step.tables().keys.end()) {
      const TaskRecord& task = step.tables().known_task(known->second);
      if (task.spec() != spec) {
        fail(ErrorCode::kAlreadyExists,
             "idempotency_key '{}' belongs to task {}, which was submitted otherwise; choose "
             "another key",
             spec.idempotency_key, known->second.value);
      }
      step.answer(request.request, Submitted{known->second, spec.count(), true, {}});
      return;
    }
  }
  check_dependencies(step.tables(), spec);
  check_room(step, request);
  auto submission = std::make_shared<Submission>();
  submission->first = step.tables().next_task;
  submission->spec = spec;
  submission->user = request.caller.user;
  submission->at = step.now();
  const TaskId first = submission->first;
  step.record(TasksSubmitted{std::move(submission)});
  step.answer(request.request,
              Submitted{first, spec.count(), false, advice_for(step.tables().pool, spec)});
}

Cancelling begin_cancel(const Decisions& step, const CancelRequest& request) {
  const TaskRecord* task = step.tables().tasks.find(request.task);
  if (task == nullptr) fail(ErrorCode::kNotFound, "there is no task {}", request.task.value);
  const Submission& submission = *task->submission;
  if (submission.user != request.caller.user && !request.caller.admin) {
    fail(ErrorCode::kPermissionDenied,
         "task {} belongs to '{}'; only they or an admin may cancel it", request.task.value,
         submission.user);
  }
  const bool whole = request.task == submission.first;
  const std::uint32_t count = whole ? submission.spec.count() : 1;
  if (count == 1 && std::holds_alternative<Ended>(task->state)) {
    fail(ErrorCode::kFailedPrecondition, "task {} has already ended: {}", request.task.value,
         state_name(task->state));
  }
  return {request.request, request.task, TaskId{request.task.value + count}};
}

std::size_t go_on_cancelling(Decisions& step, Cancelling& cancelling, std::size_t limit) {
  std::size_t looked = 0;
  for (; looked < limit && cancelling.next < cancelling.end; ++looked) {
    cancel_one(step, cancelling.next);
    ++cancelling.next.value;
  }
  if (cancelling.next == cancelling.end) step.answer(cancelling.request, Done{});
  return looked;
}

void decide(Decisions& step, const DrainRequest& request) {
  need_admin(request.caller, "drain workers");
  const WorkerRecord& worker = find_worker(step, request.worker);
  if (worker.draining != request.drain) {
    step.record(WorkerDraining{worker.id, request.drain});
    step.refresh(worker.id);
  }
  step.answer(request.request, Done{});
}

void decide(Decisions& step, const ForgetRequest& request) {
  need_admin(request.caller, "forget workers");
  const WorkerId id = find_worker(step, request.worker).id;
  const SessionView* view = step.sessions().find(id);
  if (view != nullptr && view->connected) {
    fail(ErrorCode::kFailedPrecondition, "worker '{}' is connected; drain it and stop it first",
         request.worker);
  }
  const auto held = step.tables().attempts.find(id);
  const std::vector<AttemptId> attempts =
      held == step.tables().attempts.end()
          ? std::vector<AttemptId>{}
          : std::vector<AttemptId>(held->second.begin(), held->second.end());
  for (const AttemptId attempt : attempts) {
    const std::optional<std::uint32_t> rank = step.live_rank(attempt, id);
    if (!rank) continue;
    step.end_member(step.tables().known_task(attempt.task), *rank,
                    {EndKind::kLost, 0, 0, format("worker '{}' was given up", request.worker)});
  }
  step.record(WorkerForgotten{id});
  step.sessions().forget(id);
  step.answer(request.request, Done{});
}

void decide(Decisions& step, const QuotaRequest& request) {
  need_admin(request.caller, "set quotas");
  if (request.user.empty() || request.user.size() > kMaxTaskNameBytes) {
    fail(ErrorCode::kInvalidArgument, "a user's name has 1 to {} bytes", kMaxTaskNameBytes);
  }
  if (request.quota.weight == 0) {
    fail(ErrorCode::kInvalidArgument, "quota: the weight must be at least 1");
  }
  step.record(QuotaSet{request.user, request.quota});
  step.answer(request.request, Done{});
}

}  // namespace harmonics::inline in_cluster
