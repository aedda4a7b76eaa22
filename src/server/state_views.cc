#include "state_views.h"

#include <algorithm>
#include <functional>
#include <set>

#include "plan_words.h"

namespace harmonics {
namespace {

std::vector<std::string> names_of(const WorkerSpec& spec, DeviceSet devices) {
  std::vector<std::string> names;
  devices.each([&](DeviceId id) {
    if (id.value < spec.devices.size()) names.push_back(spec.devices[id.value].name);
  });
  return names;
}

MemberView view_member(const ClusterState& state, const Member& member) {
  MemberView view;
  view.launched = member.launched;
  if (const WorkerRecord* worker = state.find_worker(member.worker)) {
    view.worker = worker->spec.name;
    if (!member.ended) view.devices = names_of(worker->spec, member.devices);
  }
  return view;
}

bool runs_on(const TaskView& task, const std::string& worker) {
  return std::ranges::any_of(task.members,
                             [&](const MemberView& member) { return member.worker == worker; });
}

bool wanted(const ListTasksQuery& query, const TaskRecord& task) {
  if (!may_see(query.viewer, task)) return false;
  return query.states.empty() ||
         std::ranges::find(query.states, state_name(task.state)) != query.states.end();
}

void count_end(WaitResult& result, const TaskRecord& task) {
  const Ended* ended = std::get_if<Ended>(&task.state);
  if (ended == nullptr) {
    ++result.unfinished;
    return;
  }
  switch (ended->outcome) {
    case TaskOutcome::kSucceeded: ++result.succeeded; break;
    case TaskOutcome::kFailed: ++result.failed; break;
    case TaskOutcome::kCancelled: ++result.cancelled; break;
    case TaskOutcome::kDependencyFailed: ++result.dependency_failed; break;
  }
}

}  // namespace

bool may_see(const Viewer& viewer, const TaskRecord& task) {
  return viewer.sees_all || task.submission->user == viewer.user;
}

TaskView view_task(const ClusterState& state, const TaskRecord& task, const ProgressOf& progress) {
  TaskView view;
  view.id = task.id;
  view.first = task.submission->first;
  view.spec = task.spec();
  view.user = task.submission->user;
  view.state = state_name(task.state);
  view.attempts = task.attempts.value;
  view.failures = task.failures;
  view.losses = task.losses;
  view.preemptions = task.preemptions;
  view.submitted = task.submission->at;
  if (const Active* active = std::get_if<Active>(&task.state)) {
    view.changed = active->since;
    view.plan = public_plan(active->plan);
    for (const Member& member : active->members) view.members.push_back(view_member(state, member));
  } else if (const Delayed* delayed = std::get_if<Delayed>(&task.state)) {
    view.changed = delayed->until;
  } else if (const Ended* ended = std::get_if<Ended>(&task.state)) {
    view.changed = ended->at;
    if (ended->last) view.last = *ended->last;
    for (const WorkerId place : task.places) {
      const WorkerRecord* worker = state.find_worker(place);
      view.members.push_back(
          {.worker = worker != nullptr ? worker->spec.name : "?", .devices = {}, .launched = true});
    }
  }
  TaskProgress told = progress(task.id);
  for (std::size_t i = 0; i < std::min(told.members.size(), view.members.size()); ++i) {
    view.members[i].progress = told.members[i];
  }
  // The last stage of a pipeline knows most: it has the loss.
  const bool last_tells = task.spec().pipeline && !told.members.empty();
  const bool last_said = last_tells && !told.members.back().empty();
  view.progress = std::move(last_said ? told.members.back() : told.newest);
  return view;
}

TaskPage list_tasks(const ClusterState& state, const ListTasksQuery& query,
                    const ProgressOf& progress) {
  TaskPage page;
  TaskId from = query.from;
  std::size_t scanned = 0;
  bool more = true;
  while (more && page.tasks.size() < query.limit && scanned < kMaxTasksScanned) {
    more = state.each_task(from, query.limit, [&](const TaskRecord& task) {
      ++scanned;
      if (page.tasks.size() == query.limit) return;
      from = {task.id.value + 1};
      if (!wanted(query, task)) return;
      TaskView view = view_task(state, task, progress);
      if (query.worker.empty() || runs_on(view, query.worker))
        page.tasks.push_back(std::move(view));
    });
  }
  // A page that is full in the middle of a slice goes on right after its last task.
  const TaskId last = {state.next_task().value};
  page.next =
      from.value < last.value && (more || page.tasks.size() == query.limit) ? from : TaskId{};
  return page;
}

TaskPage view_pipelines(const ClusterState& state, const ProgressOf& progress) {
  std::set<TaskId, std::greater<>> running;
  for (const WorkerRecord* worker : state.workers()) {
    for (const AttemptId& id : state.attempts_on(worker->id)) {
      if (state.find_task(id.task)->spec().pipeline) running.insert(id.task);
    }
  }
  TaskPage page;
  for (const TaskId id : running) {
    if (page.tasks.size() == kMaxTasksPerPage) break;
    page.tasks.push_back(view_task(state, *state.find_task(id), progress));
  }
  return page;
}

std::vector<WorkerView> view_workers(const ServerReactor& reactor) {
  const ClusterState& state = reactor.state();
  std::vector<WorkerView> views;
  for (const WorkerRecord* worker : state.workers()) {
    WorkerView& view = views.emplace_back();
    view.spec = worker->spec;
    view.draining = worker->draining;
    const SessionView session = reactor.session(worker->id);
    view.heard = session.heard;
    view.state = session.expired      ? "expired"
                 : !session.connected ? "away"
                 : worker->draining   ? "draining"
                                      : "ready";
    DeviceSet used;
    for (const AttemptId& id : state.attempts_on(worker->id)) {
      view.tasks.push_back(id.task);
      const TaskRecord* task = state.find_task(id.task);
      const Active* active = task == nullptr ? nullptr : std::get_if<Active>(&task->state);
      if (active == nullptr) continue;
      for (const Member& member : active->members) {
        if (member.worker == worker->id && !member.ended) used = used.with(member.devices);
      }
    }
    view.free_devices =
        names_of(worker->spec, first_devices(worker->spec.devices.size()).without(used));
  }
  return views;
}

ClusterStatus view_status(const ServerReactor& reactor) {
  const ClusterState& state = reactor.state();
  ClusterStatus status;
  status.term = state.term().value;
  const auto& counts = state.counts();
  const auto count = [&]<typename State>(State) { return counts[TaskState(State{}).index()]; };
  status.pending = count(Pending{});
  status.waiting = count(Waiting{});
  status.delayed = count(Delayed{});
  status.active = count(Active{});
  status.ended = count(Ended{});
  for (const WorkerView& worker : view_workers(reactor)) {
    ++status.workers;
    status.workers_connected += worker.state == "ready" || worker.state == "draining" ? 1 : 0;
    const auto devices = static_cast<std::uint32_t>(worker.spec.devices.size());
    status.devices += devices;
    status.devices_leased += devices - static_cast<std::uint32_t>(worker.free_devices.size());
  }
  return status;
}

WaitResult view_ends(const ClusterState& state, const TaskRecord& task) {
  WaitResult result;
  const bool whole_array = task.spec().array > 0 && task.id == task.submission->first;
  if (whole_array) {
    state.each_task(task.id, task.spec().count(), [&](const TaskRecord& member) {
      if (member.submission->first == task.id) count_end(result, member);
    });
  } else {
    count_end(result, task);
  }
  result.ended = result.unfinished == 0;
  return result;
}

}  // namespace harmonics
