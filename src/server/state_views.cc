#include "state_views.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <type_traits>

#include <harmonics/cluster/task_fields.h>

#include "planning/plan_words.h"

namespace harmonics::inline in_server {
namespace {

/// Tasks that one part of a picture looks at: it is drawn twice a second.
constexpr std::size_t kMaxPictureScanned = 5000;
/// What a field costs besides its text.
constexpr std::size_t kFieldBytes = 8;

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

/// Whether it runs there, or ran there last.
bool runs_on(const TaskRecord& task, WorkerId worker) {
  const bool placed =
      std::holds_alternative<Active>(task.state) || std::holds_alternative<Ended>(task.state);
  return placed && std::ranges::find(task.places, worker) != task.places.end();
}

std::vector<FileView> view_files(const TaskSpec& spec) {
  std::vector<FileView> views;
  for (const TaskFile& file : spec.files.all()) {
    views.push_back({file.path, file.data.size(), file.executable});
  }
  return views;
}

template <typename Value>
concept Plain = std::is_arithmetic_v<Value> || std::is_enum_v<Value>;

/// Only the name and what has no length.
TaskSpec brief_of(const TaskSpec& spec) {
  TaskSpec brief;
  brief.name = spec.name;
  visit_fields(std::type_identity<TaskSpec>(), [&](const TaskField&, auto member) {
    if constexpr (Plain<std::remove_cvref_t<decltype(spec.*member)>>) brief.*member = spec.*member;
  });
  return brief;
}

std::size_t wire_bytes(Plain auto) { return 0; }
std::size_t wire_bytes(const std::string& text) { return text.size(); }

std::size_t wire_bytes(const TextPairs& pairs) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : pairs) bytes += key.size() + value.size() + kFieldBytes;
  return bytes;
}

std::size_t wire_bytes(const std::vector<std::string>& texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size() + kFieldBytes;
  return bytes;
}

std::size_t wire_bytes(const std::vector<TaskId>& tasks) { return tasks.size() * kFieldBytes; }
std::size_t wire_bytes(const TaskFiles&) { return 0; }  // A view shows them without their data.

std::size_t wire_bytes(const ResourceCounts& counts) {
  std::size_t bytes = 0;
  for (const auto& [name, count] : counts) bytes += name.size() + 2 * kFieldBytes;
  return bytes;
}

template <typename Record>
std::size_t record_bytes(const Record& record);

std::size_t wire_bytes(const MaybeTerms& terms) { return terms ? record_bytes(*terms) : 0; }

std::size_t wire_bytes(const TaskVariants& variants) {
  std::size_t bytes = 0;
  for (const TaskVariant& variant : variants.all()) {
    bytes += record_bytes(variant) + 8 * kFieldBytes;
  }
  return bytes;
}

std::size_t wire_bytes(const MaybePipeline& pipeline) {
  return pipeline ? record_bytes(*pipeline) : 0;
}

template <typename Record>
std::size_t record_bytes(const Record& record) {
  std::size_t bytes = 0;
  visit_fields(std::type_identity<Record>(),
               [&](const TaskField&, auto member) { bytes += wire_bytes(record.*member); });
  return bytes;
}

/// About what the view takes on the wire.
std::size_t wire_bytes(const TaskView& view) {
  constexpr std::size_t kNumbers = 128;
  std::size_t bytes = kNumbers + record_bytes(view.spec) + view.user.size() + view.progress.size() +
                      view.plan.size() + (view.last ? view.last->message.size() : 0);
  for (const FileView& file : view.files) bytes += file.path.size() + 2 * kFieldBytes;
  for (const MemberView& member : view.members) {
    bytes +=
        member.worker.size() + wire_bytes(member.devices) + member.progress.size() + kFieldBytes;
  }
  return bytes;
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

TaskView view_task(const ClusterState& state, const TaskRecord& task, const ProgressOf& progress,
                   Detail detail) {
  TaskView view;
  view.id = task.id;
  view.first = task.submission->first;
  view.spec = detail == Detail::kBrief ? brief_of(task.spec()) : task.spec();
  if (detail == Detail::kWhole) view.files = view_files(task.spec());
  view.spec.files = {};
  view.user = task.submission->user;
  view.state = state_name(task.state);
  view.attempts = task.attempts.value;
  view.failures = task.failures;
  view.losses = task.losses;
  view.preemptions = task.preemptions;
  view.refusals = task.refusals;
  view.submitted = task.submission->at;
  view.plan = public_plan(task.plan());
  if (const Active* active = std::get_if<Active>(&task.state)) {
    view.changed = active->since;
    for (const Member& member : active->members) view.members.push_back(view_member(state, member));
  } else if (const Delayed* delayed = std::get_if<Delayed>(&task.state)) {
    view.changed = delayed->until;
  } else if (const Ended* ended = std::get_if<Ended>(&task.state)) {
    view.changed = ended->at;
    if (ended->last) view.last = *ended->last;
    // The record counts those that another attempt followed.
    const bool lost =
        view.last && (view.last->kind == EndKind::kLost || view.last->kind == EndKind::kLeaseLost);
    if (lost && ended->outcome == TaskOutcome::kFailed) ++view.losses;
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
  page.newest_first = query.newest_first;
  const WorkerRecord* worker = query.worker.empty() ? nullptr : state.find_worker(query.worker);
  if (worker == nullptr && !query.worker.empty()) return page;
  const Detail detail = query.brief ? Detail::kBrief : Detail::kWhole;
  std::size_t scanned = 0;
  std::size_t bytes = 0;
  const auto full_before = [&](const TaskRecord& task) {
    page.next = task.id;
    return false;
  };
  const auto visit = [&](const TaskRecord& task) {
    if (page.tasks.size() == query.limit || scanned++ == kMaxTasksScanned) return full_before(task);
    if (!wanted(query, task) || (worker != nullptr && !runs_on(task, worker->id))) return true;
    TaskView view = view_task(state, task, progress, detail);
    bytes += wire_bytes(view);
    if (bytes > kMaxTaskPageBytes && !page.tasks.empty()) return full_before(task);
    page.tasks.push_back(std::move(view));
    return true;
  };
  if (query.newest_first) {
    const TaskId newest{state.next_task().value - 1};
    state.visit_tasks(query.from == TaskId{} ? newest : query.from, ClusterState::Order::kDown,
                      visit);
  } else {
    state.visit_tasks(query.from, ClusterState::Order::kUp, visit);
  }
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

std::vector<TaskView> view_picture(const ClusterState& state, const PictureQuery& query,
                                   const ProgressOf& progress) {
  std::map<TaskId, const TaskRecord*> shown;
  std::size_t active = 0;
  for (const WorkerRecord* worker : state.workers()) {
    if (active >= kMaxPictureTasks) break;
    for (const AttemptId& id : state.attempts_on(worker->id, kMaxPictureTasks)) {
      const TaskRecord* task = state.find_task(id.task);
      if (may_see(query.viewer, *task) && shown.emplace(id.task, task).second) ++active;
      if (active >= kMaxPictureTasks) break;
    }
  }
  const auto look = [&](TaskId from, ClusterState::Order order, auto wants) {
    std::size_t found = 0;
    std::size_t scanned = 0;
    state.visit_tasks(from, order, [&](const TaskRecord& task) {
      const bool takes = may_see(query.viewer, task) && wants(task);
      if (takes) shown.emplace(task.id, &task);
      found += takes ? 1 : 0;
      return found < kMaxPictureTasks && ++scanned < kMaxPictureScanned;
    });
  };
  if (const auto first = state.oldest_pending()) {
    look(*first, ClusterState::Order::kUp,
         [](const TaskRecord& task) { return std::holds_alternative<Pending>(task.state); });
  }
  look(TaskId{state.next_task().value - 1}, ClusterState::Order::kDown,
       [](const TaskRecord&) { return true; });
  std::vector<TaskView> views;
  for (const auto& [id, task] : shown) {
    views.push_back(view_task(state, *task, progress, Detail::kBrief));
    views.back().plan.clear();
  }
  return views;
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
    if (session.unable.resting()) {
      view.problem = session.unable.reason;
      view.retry = session.unable.until;
    }
    view.state = session.expired         ? "expired"
                 : !session.connected    ? "away"
                 : worker->draining      ? "draining"
                 : !view.problem.empty() ? "unable"
                                         : "ready";
    for (const AttemptId& id : state.attempts_on(worker->id, kMaxTasksPerWorkerView)) {
      view.tasks.push_back(id.task);
    }
    const Worker& pooled = state.pool().at(worker->id);
    view.task_count = pooled.active_tasks;
    view.free_devices = names_of(worker->spec, pooled.free);
    for (std::size_t i = 0; i < pooled.free_resources.size(); ++i) {
      view.free_resources.emplace_back(worker->spec.resources[i].first, pooled.free_resources[i]);
    }
    for (std::size_t i = 0; i < worker->spec.devices.size(); ++i) {
      view.rooms.push_back(pooled.room(DeviceId{static_cast<std::uint16_t>(i)}));
    }
  }
  return views;
}

std::vector<UserView> view_quotas(const ClusterState& state, const QuotasQuery& query) {
  std::vector<UserView> views;
  for (const UserRecord* user : state.users()) {
    if (!query.user.empty() && user->name != query.user) continue;
    if (!query.viewer.sees_all && user->name != query.viewer.user) continue;
    if (views.size() == kMaxUsersListed) break;
    views.push_back({user->name, user->quota, user->gpus(), user->active, user->waiting});
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
    status.workers_connected += worker.state != "away" && worker.state != "expired" ? 1 : 0;
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

}  // namespace harmonics::inline in_server
