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

void check_room(const Decisions& step, const Caller& caller, std::uint64_t count,
                std::uint64_t bytes) {
  const StateTables& tables = step.tables();
  if (tables.tasks.size() + count > step.options().max_tasks) {
    fail(ErrorCode::kResourceExhausted,
         "the server keeps {} tasks and takes at most {}; wait until some have ended",
         tables.tasks.size(), step.options().max_tasks);
  }
  // Those of ended tasks go when there are too many; what is left belongs to tasks that need it.
  const std::uint64_t most = 2 * step.options().keep_file_bytes;
  if (bytes > 0 && tables.file_bytes + bytes > most) {
    fail(ErrorCode::kResourceExhausted,
         "the server holds {} MiB of files that came with tasks and takes at most {}; wait until "
         "some have ended, or put the files where the workers can read them",
         tables.file_bytes >> 20, most >> 20);
  }
  const auto user = tables.users.find(caller.user);
  if (user == tables.users.end() || user->second.quota.max_waiting == 0) return;
  const Quota& quota = user->second.quota;
  if (user->second.waiting + count > quota.max_waiting) {
    fail(ErrorCode::kResourceExhausted,
         "user '{}' has {} tasks waiting and may have at most {}; wait until some have started",
         caller.user, user->second.waiting, quota.max_waiting);
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

namespace {

/// What holds for every new task, whatever the cluster is like.
void check_new(const Caller& caller, const TaskSpec& spec) {
  check_task(spec);
  check_artifacts(spec);
  check_params(spec);
  check_files(spec);
  if (spec.pipeline) check_inference(*spec.pipeline);
  if (caller.user.empty() || caller.user.size() > kMaxTaskNameBytes) {
    fail(ErrorCode::kInvalidArgument, "a user's name has 1 to {} bytes", kMaxTaskNameBytes);
  }
}

/// The task that was submitted before with the same key, or none. Another one of that key is an
/// Error. Its priority may have been changed since.
std::optional<TaskId> find_earlier(const Decisions& step, const Caller& caller, TaskSpec spec) {
  if (spec.idempotency_key.empty()) return std::nullopt;
  const auto known = step.tables().keys.find(key_of(caller.user, spec.idempotency_key));
  if (known == step.tables().keys.end()) return std::nullopt;
  const TaskRecord& task = step.tables().known_task(known->second);
  spec.priority = task.spec().priority;
  if (task.spec() != spec) {
    fail(ErrorCode::kAlreadyExists,
         "idempotency_key '{}' belongs to task {}, which was submitted otherwise; choose "
         "another key",
         spec.idempotency_key, known->second.value);
  }
  return known->second;
}

/// What to tell of a task that no worker could run; it is refused unless it may wait for one. One
/// whose gang is larger than the cluster waits: workers may be about to join.
std::string advice_or_refusal(const Decisions& step, const TaskSpec& spec) {
  const Advice advice = advice_for(step.tables().pool, spec);
  if (advice.text.empty()) return {};
  if (spec.wait_for_machines || !advice.hopeless) return "it waits: " + advice.text;
  fail(ErrorCode::kFailedPrecondition,
       "the task could never run: {} To have it wait for such workers, say --wait-for-machines",
       advice.text);
}

TaskId add_submission(Decisions& step, const Caller& caller, const TaskSpec& spec) {
  auto submission = std::make_shared<Submission>();
  submission->first = step.tables().next_task;
  submission->spec = spec;
  submission->user = caller.user;
  submission->at = step.now();
  const TaskId first = submission->first;
  step.record(TasksSubmitted{std::move(submission)});
  return first;
}

}  // namespace

void decide(Decisions& step, const SubmitRequest& request) {
  check_new(request.caller, request.spec);
  const TaskSpec& spec = request.spec;
  if (const std::optional<TaskId> earlier = find_earlier(step, request.caller, spec)) {
    step.answer(request.request, Submitted{*earlier, spec.count(), true, {}});
    return;
  }
  check_dependencies(step.tables(), spec);
  check_room(step, request.caller, spec.count(), file_bytes(spec));
  std::string advice = advice_or_refusal(step, spec);
  const TaskId first = add_submission(step, request.caller, spec);
  step.answer(request.request, Submitted{first, spec.count(), false, std::move(advice)});
}

void decide(Decisions& step, const DagRequest& request) {
  if (request.nodes.empty() || request.nodes.size() > kMaxDagNodes) {
    fail(ErrorCode::kInvalidArgument, "a graph of tasks has 1 to {} of them, not {}", kMaxDagNodes,
         request.nodes.size());
  }
  std::vector<TaskSpec> specs;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::string advice;
  std::vector<std::uint64_t> firsts;
  for (const DagRequest::Node& node : request.nodes) {
    TaskSpec& spec = specs.emplace_back(node.spec);
    for (const std::uint32_t before : node.after) {
      if (before + std::size_t{1} >= specs.size()) {
        fail(ErrorCode::kInvalidArgument, "task '{}' waits for one that does not stand before it",
             spec.name);
      }
      spec.depends_on.push_back(TaskId{firsts[before]});
    }
    try {
      check_new(request.caller, spec);
      if (!spec.idempotency_key.empty()) {
        fail(ErrorCode::kInvalidArgument, "a task of a graph has no idempotency_key of its own");
      }
      check_dependencies(step.tables(), node.spec);
      if (advice.empty()) advice = advice_or_refusal(step, spec);
    } catch (const Error& error) {
      throw Error(error.code(),
                  format("task '{}': {}; none was submitted", node.spec.name, error.what()));
    }
    firsts.push_back(step.tables().next_task.value + count);
    count += spec.count();
    bytes += file_bytes(spec);
  }
  check_room(step, request.caller, count, bytes);
  for (const TaskSpec& spec : specs) add_submission(step, request.caller, spec);
  step.answer(request.request,
              Submitted{TaskId{firsts.front()}, static_cast<std::uint32_t>(count), false, advice});
}

void decide(Decisions& step, const PriorityRequest& request) {
  const TaskRecord* task = step.tables().tasks.find(request.task);
  if (task == nullptr) fail(ErrorCode::kNotFound, "there is no task {}", request.task.value);
  const Submission& submission = *task->submission;
  if (submission.user != request.caller.user && !request.caller.admin) {
    fail(ErrorCode::kPermissionDenied,
         "task {} belongs to '{}'; only they or an admin may change its priority",
         request.task.value, submission.user);
  }
  if (request.priority > kMaxTaskPriority || request.priority < -kMaxTaskPriority) {
    fail(ErrorCode::kInvalidArgument, "priority is {}, must be {} to {}", request.priority,
         -kMaxTaskPriority, kMaxTaskPriority);
  }
  const std::uint32_t count = request.task == submission.first ? submission.spec.count() : 1;
  if (count > kMaxPriorityChanges) {
    fail(ErrorCode::kResourceExhausted,
         "the array of task {} has {} tasks, and the priority of at most {} is changed at once",
         request.task.value, count, kMaxPriorityChanges);
  }
  if (count == 1 && std::holds_alternative<Ended>(task->state)) {
    fail(ErrorCode::kFailedPrecondition, "task {} has already ended: {}", request.task.value,
         state_name(task->state));
  }
  step.record(PriorityChanged{request.task, count, request.priority});
  step.answer(request.request, Done{});
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
