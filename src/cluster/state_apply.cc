// The one interpreter of facts.
#include <algorithm>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>
#include <harmonics/cluster/task_files.h>

#include "state_tables.h"

namespace harmonics::inline in_cluster {
namespace {

template <typename... Args>
[[noreturn]] void damaged(FormatString<Args...> text, Args&&... args) {
  fail(ErrorCode::kDataLoss, "cluster state: {}; the journal is damaged or was written by a bug",
       format(text, std::forward<Args>(args)...));
}

void set_places(TaskRecord& task, const std::vector<Member>& members) {
  task.places.clear();
  task.places.reserve(members.size());
  for (const Member& member : members) task.places.push_back(member.worker);
}

/// What is known of the latest attempt becomes the past: the next one begins.
void remember_places(TaskRecord& task) {
  if (task.places.empty()) return;  // it ran under a server that did not keep that
  if (task.past.size() == kMaxPastAttempts) task.past.erase(task.past.begin());
  task.past.push_back({task.attempts, std::move(task.places)});
}

/// A journal may say what cannot be; the pool relies on it that nobody takes what is not there.
void check_places(const WorkerPool& pool, const TaskSpec& spec,
                  const std::vector<Member>& members) {
  std::vector<WorkerId> seen;
  for (const Member& member : members) {
    if (member.ended) continue;
    const Worker* worker = pool.find(member.worker);
    const Needs needs = needs_of(spec, member.variant);
    if (worker == nullptr || !worker->can_give(member.devices, needs))
      damaged("worker {} cannot give what a task takes", member.worker.value);
    if (std::ranges::find(seen, member.worker) != seen.end()) {
      damaged("worker {} has one task twice", member.worker.value);
    }
    seen.push_back(member.worker);
  }
}

bool is_array(const TaskRecord& task) { return task.spec().count() > 1; }

}  // namespace

std::string key_of(std::string_view user, std::string_view key) {
  std::string joined(user);
  joined += '\0';
  joined += key;
  return joined;
}

const TaskRecord& StateTables::known_task(TaskId id) const {
  const TaskRecord* found = tasks.find(id);
  HARMONICS_CHECK(found != nullptr, "task {} is relied upon and is gone", id.value);
  return *found;
}

const UserRecord& StateTables::known_user(std::string_view name) const {
  const auto found = users.find(name);
  HARMONICS_CHECK(found != users.end(), "user '{}' has tasks and no record", name);
  return found->second;
}

const Active& running(const TaskRecord& task) {
  const Active* active = std::get_if<Active>(&task.state);
  HARMONICS_CHECK(active != nullptr, "task {} is taken for active and is {}", task.id.value,
                  state_name(task.state));
  return *active;
}

TaskRecord& StateTables::task(TaskId id) {
  TaskRecord* found = tasks.find(id);
  if (found == nullptr) damaged("no task {}", id.value);
  return *found;
}

std::pair<TaskRecord&, Active&> StateTables::active(AttemptId id) {
  TaskRecord& record = task(id.task);
  Active* active = std::get_if<Active>(&record.state);
  if (active == nullptr || record.attempts != id.attempt) {
    damaged("attempt {} is not active", to_string(id));
  }
  return {record, *active};
}

UserRecord& StateTables::user(const std::string& name) {
  const auto [place, added] = users.try_emplace(name);
  if (added) place->second.name = name;
  return place->second;
}

bool StateTables::finished(TaskId dependency) const {
  const TaskRecord* record = tasks.find(dependency);
  if (record == nullptr) return true;  // Forgotten, so it had ended.
  const auto array = arrays.find(dependency);
  if (array != arrays.end()) return array->second.unfinished == 0;
  return std::holds_alternative<Ended>(record->state);
}

bool StateTables::may_succeed(TaskId dependency) const {
  if (finished(dependency)) return false;
  const auto array = arrays.find(dependency);
  return array == arrays.end() || array->second.unsuccessful == 0;
}

std::vector<TaskId> StateTables::open_dependencies(const TaskSpec& spec) const {
  std::vector<TaskId> open;
  for (const TaskId id : spec.depends_on) {
    if (!finished(id)) open.push_back(id);
  }
  std::ranges::sort(open);
  open.erase(std::ranges::unique(open).begin(), open.end());
  return open;
}

void StateTables::change(TaskRecord& task, TaskState next) {
  leave(task);
  task.state = std::move(next);
  enter(task);
}

void StateTables::enter(TaskRecord& task) {
  UserRecord& owner = user(task.submission->user);
  ++counts[task.state.index()];
  if (const auto* delay = std::get_if<Delayed>(&task.state)) delayed.emplace(delay->until, task.id);
  if (const auto* end = std::get_if<Ended>(&task.state)) {
    ended.emplace(end->at, task.id);
    if (task.id == task.submission->first) ended_file_bytes += harmonics::file_bytes(task.spec());
  } else if (const auto* running = std::get_if<Active>(&task.state)) {
    ++owner.active;
    ++active_by_priority[task.spec().priority];
    for (const Member& member : running->members) {
      if (!member.ended) lease(task, member);
    }
  } else {
    ++owner.waiting;
  }
  if (std::holds_alternative<Pending>(task.state)) enqueue(task);
}

void StateTables::leave(TaskRecord& task) {
  UserRecord& owner = user(task.submission->user);
  HARMONICS_CHECK(counts[task.state.index()] > 0, "task {} is {}, where none was counted",
                  task.id.value, state_name(task.state));
  --counts[task.state.index()];
  if (const auto* delay = std::get_if<Delayed>(&task.state)) delayed.erase({delay->until, task.id});
  if (const auto* end = std::get_if<Ended>(&task.state)) {
    ended.erase({end->at, task.id});
    if (task.id == task.submission->first) ended_file_bytes -= harmonics::file_bytes(task.spec());
  } else if (std::holds_alternative<Active>(task.state)) {
    const auto count = active_by_priority.find(task.spec().priority);
    HARMONICS_CHECK(owner.active > 0 && count != active_by_priority.end(),
                    "task {} of '{}' was not counted as active", task.id.value, owner.name);
    --owner.active;
    if (--count->second == 0) active_by_priority.erase(count);
  } else {
    HARMONICS_CHECK(owner.waiting > 0, "task {} of '{}' was not counted as waiting", task.id.value,
                    owner.name);
    --owner.waiting;
  }
  if (std::holds_alternative<Pending>(task.state)) queue.remove(lane_of(task), task.id);
}

void StateTables::lease(const TaskRecord& task, const Member& member) {
  const Needs needs = needs_of(task.spec(), member.variant);
  pool.take(member.worker, member.devices, needs, member.launched);
  const bool fresh = attempts[member.worker].insert({task.id, task.attempts}).second;
  HARMONICS_CHECK(fresh, "task {} is twice on one worker", task.id.value);
  user(task.submission->user).device_units += member.devices.size() * needs.share;
}

void StateTables::release(const TaskRecord& task, const Member& member) {
  const Needs needs = needs_of(task.spec(), member.variant);
  pool.give_back(member.worker, member.devices, needs, member.launched);
  const std::size_t held = attempts[member.worker].erase({task.id, task.attempts});
  HARMONICS_CHECK(held == 1, "task {} leaves a worker that did not have it", task.id.value);
  UserRecord& owner = user(task.submission->user);
  const std::uint64_t units = member.devices.size() * needs.share;
  HARMONICS_CHECK(owner.device_units >= units, "'{}' gives back {} units of {}", owner.name, units,
                  owner.device_units);
  owner.device_units -= units;
}

void StateTables::count_end(const TaskRecord& task, bool success) {
  if (!success) {
    disappoint(task.id);
    disappoint(task.submission->first);
  }
  if (!is_array(task)) {
    if (success) satisfy(task.id);
    return;
  }
  const auto array = arrays.find(task.submission->first);
  HARMONICS_CHECK(array != arrays.end() && array->second.unfinished > 0,
                  "task {} ends in an array that had ended", task.id.value);
  ArrayProgress& progress = array->second;
  --progress.unfinished;
  if (!success) ++progress.unsuccessful;
  if (success && task.id != task.submission->first) satisfy(task.id);
  if (progress.unfinished == 0 && progress.unsuccessful == 0) satisfy(task.submission->first);
}

void StateTables::satisfy(TaskId dependency) {
  const auto node = dependents.extract(dependency);
  if (node.empty()) return;
  for (const TaskId first : node.mapped()) {
    const TaskRecord* head = tasks.find(first);
    if (head == nullptr) continue;
    freed.push_back({first, TaskId{first.value + head->spec().count()}});
  }
}

std::size_t StateTables::free_some(std::size_t limit) {
  std::size_t looked = 0;
  for (; looked < limit && !freed.empty(); ++looked) {
    TaskSpan& span = freed.front();
    const TaskId id{span.next.value++};
    if (span.next == span.end) freed.pop_front();
    TaskRecord* dependent = tasks.find(id);
    if (dependent == nullptr) continue;
    Waiting* waiting = std::get_if<Waiting>(&dependent->state);
    if (waiting == nullptr) continue;
    HARMONICS_CHECK(waiting->dependencies > 0, "task {} waits for nothing", id.value);
    if (--waiting->dependencies == 0) change(*dependent, Pending{});
  }
  return looked;
}

TaskState StateTables::settled(const TaskRecord& task) const {
  const Waiting* waiting = std::get_if<Waiting>(&task.state);
  if (waiting == nullptr) return task.state;
  const auto less = static_cast<std::uint32_t>(std::ranges::count_if(
      freed, [&](const TaskSpan& span) { return span.next <= task.id && task.id < span.end; }));
  HARMONICS_CHECK(less <= waiting->dependencies, "task {} is freed of more than it waits for",
                  task.id.value);
  if (less == waiting->dependencies) return Pending{};
  return Waiting{waiting->dependencies - less};
}

void StateTables::disappoint(TaskId dependency) {
  const auto node = dependents.extract(dependency);
  if (node.empty()) return;
  for (const TaskId first : node.mapped()) {
    if (const TaskRecord* head = tasks.find(first)) doom(*head->submission);
  }
}

void StateTables::doom(const Submission& submission) {
  const TaskId end{submission.first.value + submission.spec.count()};
  if (doomed.empty() || doomed.back().end != end) doomed.push_back({submission.first, end});
}

void StateTables::watch_dependencies(const Submission& submission) {
  for (const TaskId dependency : open_dependencies(submission.spec)) {
    std::vector<TaskId>& watchers = dependents[dependency];
    if (watchers.empty() || watchers.back() != submission.first) {
      watchers.push_back(submission.first);
    }
  }
}

void StateTables::apply(const TermStarted& fact) {
  if (fact.term <= term) damaged("term {} after term {}", fact.term.value, term.value);
  term = fact.term;
}

void StateTables::apply(const TasksSubmitted& fact) {
  const Submission& submission = *fact.submission;
  const std::uint32_t count = submission.spec.count();
  if (submission.first != next_task) {
    damaged("task {} where {} was next", submission.first.value, next_task.value);
  }
  next_task.value += count;
  file_bytes += harmonics::file_bytes(submission.spec);
  if (count > 1) arrays[submission.first] = {count, count, 0};
  if (!submission.spec.idempotency_key.empty()) {
    keys[key_of(submission.user, submission.spec.idempotency_key)] = submission.first;
  }
  const auto open = static_cast<std::uint32_t>(open_dependencies(submission.spec).size());
  const std::uint32_t level = level_of && open == 0 ? level_of(submission.spec, {}) : 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    TaskRecord record;
    record.id = TaskId{submission.first.value + i};
    record.submission = fact.submission;
    record.level = level;
    if (open > 0) record.state = Waiting{open};
    tasks.add(std::move(record));
  }
  user(submission.user).waiting += count;
  if (open > 0) {
    counts[TaskState(Waiting{}).index()] += count;
    watch_dependencies(submission);
  } else {
    counts[TaskState(Pending{}).index()] += count;
    queue.add(lane_of(known_task(submission.first)), submission.first, TaskId{next_task.value - 1});
  }
}

void StateTables::apply(const AttemptStarted& fact) {
  TaskRecord& record = task(fact.id.task);
  if (!std::holds_alternative<Pending>(record.state) ||
      fact.id.attempt.value != record.attempts.value + 1) {
    damaged("attempt {} starts while its task is {}", to_string(fact.id), state_name(record.state));
  }
  check_places(pool, record.spec(), fact.members);
  leave(record);
  if (record.attempts.value > 0) remember_places(record);
  record.attempts = fact.id.attempt;
  set_places(record, fact.members);
  record.state = Active{fact.at, fact.members, std::nullopt, {}, false};
  enter(record);
}

void StateTables::apply(const AttemptPlanned& fact) {
  TaskRecord& record = task(fact.id.task);
  if (auto* ended = std::get_if<Ended>(&record.state)) {  // as a snapshot tells it
    ended->plan = fact.plan;
    return;
  }
  Active& running = active(fact.id).second;
  running.plan = fact.plan;
  running.measures = fact.measures;
}

void StateTables::apply(const MemberLaunched& fact) {
  auto [record, running] = active(fact.id);
  if (fact.rank >= running.members.size()) damaged("attempt {}: no such rank", to_string(fact.id));
  Member& member = running.members[fact.rank];
  if (!member.launched && !member.ended) pool.launch(member.worker);
  member.launched = true;
}

void StateTables::apply(const MemberEnded& fact) {
  auto [record, running] = active(fact.id);
  if (fact.rank >= running.members.size() || running.members[fact.rank].ended) {
    damaged("attempt {}: rank {} ends a second time", to_string(fact.id), fact.rank);
  }
  Member& member = running.members[fact.rank];
  release(record, member);
  member.ended = fact.result;
}

void StateTables::apply(const AttemptStopping& fact) {
  active(fact.id).second.stopping = fact.reason;
}

void StateTables::apply(const AttemptRequeued& fact) {
  auto [record, running] = active(fact.id);
  if (!std::ranges::all_of(running.members, [](const Member& m) { return m.ended.has_value(); })) {
    damaged("attempt {} is queued again while it runs", to_string(fact.id));
  }
  switch (fact.reason) {
    case AttemptRequeued::Reason::kFailure: ++record.failures; break;
    case AttemptRequeued::Reason::kLoss: ++record.losses; break;
    case AttemptRequeued::Reason::kPreemption: ++record.preemptions; break;
    case AttemptRequeued::Reason::kMeasured: break;
    case AttemptRequeued::Reason::kUnable: ++record.refusals; break;
  }
  if (fact.not_before == Time{}) {
    change(record, Pending{});
  } else {
    change(record, Delayed{fact.not_before});
  }
}

void StateTables::apply(const RunCounted& fact) {
  TaskRecord& record = task(fact.task);
  const bool queued = std::holds_alternative<Pending>(record.state);
  if (queued) queue.remove(lane_of(record), record.id);
  record.ran = fact.ran;
  if (queued) enqueue(record);
}

void StateTables::apply(const PriorityChanged& fact) {
  std::shared_ptr<const Submission> before;
  std::shared_ptr<const Submission> after;
  for (std::uint32_t i = 0; i < fact.count; ++i) {
    TaskRecord* record = tasks.find(TaskId{fact.first.value + i});
    if (record == nullptr || std::holds_alternative<Ended>(record->state)) continue;
    if (record->submission != before) {
      before = record->submission;
      auto changed = std::make_shared<Submission>(*before);
      changed->spec.priority = fact.priority;
      after = std::move(changed);
    }
    if (std::holds_alternative<Pending>(record->state)) {
      queue.remove(lane_of(*record), record->id);
      record->submission = after;
      enqueue(*record);
      continue;
    }
    if (std::holds_alternative<Active>(record->state)) {
      const auto count = active_by_priority.find(before->spec.priority);
      HARMONICS_CHECK(count != active_by_priority.end(), "task {} was not counted as active",
                      record->id.value);
      if (--count->second == 0) active_by_priority.erase(count);
      ++active_by_priority[fact.priority];
    }
    record->submission = after;
  }
}

void StateTables::enqueue(TaskRecord& task) {
  task.level = level_of ? level_of(task.spec(), task.ran) : 0;
  queue.add(lane_of(task), task.id, task.id);
}

LaneKey StateTables::lane_of(const TaskRecord& task) const {
  return in_cluster::lane_of(*task.submission, task.level);
}

void StateTables::apply(const TaskReady& fact) {
  TaskRecord& record = task(fact.task);
  if (!std::holds_alternative<Delayed>(record.state))
    damaged("task {} backs off not", record.id.value);
  change(record, Pending{});
}

void StateTables::apply(const CancelRequested& fact) { task(fact.task).cancelled = true; }

void StateTables::apply(const TaskEnded& fact) {
  TaskRecord& record = task(fact.task);
  if (std::holds_alternative<Ended>(record.state)) damaged("task {} ends twice", record.id.value);
  std::string plan;
  if (auto* running = std::get_if<Active>(&record.state)) {
    for (const Member& member : running->members) {
      if (!member.ended) damaged("task {} ends while it runs", record.id.value);
    }
    plan = std::move(running->plan);
  }
  change(record, Ended(fact.outcome, fact.at, fact.last, std::move(plan)));
  count_end(record, fact.outcome == TaskOutcome::kSucceeded);
}

void StateTables::apply(const TasksForgotten& fact) {
  for (const TaskId id : fact.tasks) {
    TaskRecord& record = task(id);
    if (!std::holds_alternative<Ended>(record.state)) damaged("task {} has not ended", id.value);
    leave(record);
    dependents.erase(id);
    const Submission& submission = *record.submission;
    const auto array = arrays.find(submission.first);
    const bool partly = array != arrays.end() && --array->second.kept > 0;
    if (array != arrays.end() && !partly) arrays.erase(array);
    if (!partly) file_bytes -= harmonics::file_bytes(submission.spec);
    if (!submission.spec.idempotency_key.empty() && id == submission.first) {
      keys.erase(key_of(submission.user, submission.spec.idempotency_key));
    }
    tasks.erase(id);
  }
}

void StateTables::apply(const WorkerRegistered& fact) {
  const WorkerRecord& now = fact.worker;
  const auto known = workers.find(now.id);
  const bool same = known != workers.end() && known->second.spec.devices == now.spec.devices &&
                    known->second.spec.cpus == now.spec.cpus &&
                    known->second.spec.memory_mb == now.spec.memory_mb &&
                    known->second.spec.resources == now.spec.resources;
  if (known != workers.end()) identities.erase(known->second.spec.identity);
  if (!same) pool.put(now.id, now.spec);
  if (same) pool.describe(now.id, now.spec);
  workers[now.id] = now;
  identities[now.spec.identity] = now.id;
  next_worker.value = std::max(next_worker.value, now.id.value + 1);
}

void StateTables::apply(const WorkerDraining& fact) {
  const auto known = workers.find(fact.worker);
  if (known == workers.end()) damaged("no worker {}", fact.worker.value);
  known->second.draining = fact.draining;
}

void StateTables::apply(const WorkerForgotten& fact) {
  const auto known = workers.find(fact.worker);
  if (known == workers.end()) damaged("no worker {}", fact.worker.value);
  const auto held = attempts.find(fact.worker);
  if (held != attempts.end() && !held->second.empty()) {
    damaged("worker {} is forgotten while it has tasks", known->second.spec.name);
  }
  attempts.erase(fact.worker);
  identities.erase(known->second.spec.identity);
  pool.remove(fact.worker);
  workers.erase(known);
}

void StateTables::apply(const QuotaSet& fact) { user(fact.user).quota = fact.quota; }

void StateTables::apply(const LeasesPromised& fact) { promised = fact; }

void StateTables::apply(const CountersKept& fact) {
  term = fact.term;
  next_task = fact.next_task;
  next_worker = fact.next_worker;
}

void StateTables::apply(const TaskKept& fact) {
  const Submission& submission = *fact.task.submission;
  if (tasks.find(fact.task.id) != nullptr) damaged("task {} is there twice", fact.task.id.value);
  if (const auto* active = std::get_if<Active>(&fact.task.state)) {
    check_places(pool, submission.spec, active->members);
  }
  TaskRecord& record = tasks.add(fact.task);
  record.past.clear();  // it follows, fact by fact
  if (const auto* running = std::get_if<Active>(&record.state)) {
    set_places(record, running->members);
  }
  const bool unfinished = !std::holds_alternative<Ended>(record.state);
  if (!is_array(record) || !arrays.contains(submission.first)) {
    file_bytes += harmonics::file_bytes(submission.spec);
  }
  if (is_array(record)) {
    ArrayProgress& progress = arrays[submission.first];
    ++progress.kept;
    if (unfinished) ++progress.unfinished;
    const auto* end = std::get_if<Ended>(&record.state);
    if (end != nullptr && end->outcome != TaskOutcome::kSucceeded) ++progress.unsuccessful;
  }
  if (!submission.spec.idempotency_key.empty()) {
    keys[key_of(submission.user, submission.spec.idempotency_key)] = submission.first;
  }
  enter(record);
  if (const auto* waiting = std::get_if<Waiting>(&record.state)) {
    watch_dependencies(submission);
    const std::vector<TaskId> open = open_dependencies(submission.spec);
    const auto hopeful = std::ranges::count_if(open, [&](TaskId id) { return may_succeed(id); });
    if (static_cast<std::uint64_t>(hopeful) < waiting->dependencies) doom(submission);
  }
}

void StateTables::apply(const PlacesKept& fact) { task(fact.task).places = fact.places; }

void StateTables::apply(const PastPlacesKept& fact) {
  TaskRecord& record = task(fact.id.task);
  const bool follows = record.past.empty() || record.past.back().attempt < fact.id.attempt;
  if (!follows || !(fact.id.attempt < record.attempts) || record.past.size() == kMaxPastAttempts) {
    damaged("attempt {} cannot be one that its task had before", to_string(fact.id));
  }
  record.past.push_back({fact.id.attempt, fact.places});
}

}  // namespace harmonics::inline in_cluster
