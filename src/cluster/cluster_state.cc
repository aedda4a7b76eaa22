#include <harmonics/cluster/cluster_state.h>

#include <algorithm>
#include <limits>

#include <harmonics/base/error.h>

#include "state_tables.h"
#include "turns.h"

namespace harmonics::inline in_cluster {

ClusterState::ClusterState() : tables_(std::make_unique<StateTables>()) {}
ClusterState::~ClusterState() = default;
ClusterState::ClusterState(ClusterState&&) noexcept = default;
ClusterState& ClusterState::operator=(ClusterState&&) noexcept = default;

void ClusterState::apply(const Fact& fact) {
  std::visit([&](const auto& one) { tables_->apply(one); }, fact);
  tables_->free_some(std::numeric_limits<std::size_t>::max());
}

void ClusterState::snapshot(const std::function<void(const Fact&)>& keep) const {
  keep(CountersKept{tables_->term, tables_->next_task, tables_->next_worker});
  if (tables_->promised != LeasesPromised{}) keep(tables_->promised);
  for (const auto& [id, worker] : tables_->workers) keep(WorkerRegistered{worker});
  for (const auto& [name, user] : tables_->users) keep(QuotaSet{name, user.quota});
  tables_->tasks.each(TaskId{}, [&](const TaskRecord& task) {
    TaskKept kept{task};
    if (!tables_->freed.empty()) kept.task.state = tables_->settled(task);
    keep(kept);
    if (!task.places.empty() && !std::holds_alternative<Active>(task.state)) {
      keep(PlacesKept{task.id, task.places});
    }
    if (task.ran != Nanoseconds{}) keep(RunCounted{task.id, task.ran});
    for (const PastAttempt& past : task.past) {
      keep(PastPlacesKept{{task.id, past.attempt}, past.places});
    }
    if (!task.plan().empty()) {
      const Active* active = std::get_if<Active>(&task.state);
      const bool measures = active != nullptr && active->measures;
      keep(AttemptPlanned{{task.id, task.attempts}, task.plan(), measures});
    }
    return true;
  });
}

bool ClusterState::operator==(const ClusterState& other) const {
  const StateTables& a = *tables_;
  const StateTables& b = *other.tables_;
  if (a.term != b.term || a.next_task != b.next_task || a.next_worker != b.next_worker ||
      a.promised != b.promised || a.tasks.size() != b.tasks.size() || a.workers != b.workers ||
      a.users != b.users || a.counts != b.counts || a.delayed != b.delayed || a.ended != b.ended ||
      a.keys != b.keys) {
    return false;
  }
  bool equal = true;
  a.tasks.each(TaskId{}, [&](const TaskRecord& task) {
    const TaskRecord* twin = b.tasks.find(task.id);
    equal = twin != nullptr && *twin == task;
    return equal;
  });
  for (const Worker* worker : a.pool.all()) {
    const Worker* twin = b.pool.find(worker->id);
    equal = equal && twin != nullptr && twin->free == worker->free &&
            twin->active_tasks == worker->active_tasks && twin->starting == worker->starting &&
            twin->free_cpus == worker->free_cpus &&
            twin->free_memory_mb == worker->free_memory_mb && twin->rooms == worker->rooms &&
            twin->free_resources == worker->free_resources && twin->groups == worker->groups;
  }
  return equal;
}

Term ClusterState::term() const { return tables_->term; }
const LeasesPromised& ClusterState::promised() const { return tables_->promised; }
TaskId ClusterState::next_task() const { return tables_->next_task; }
WorkerId ClusterState::next_worker() const { return tables_->next_worker; }

const TaskRecord* ClusterState::find_task(TaskId id) const { return tables_->tasks.find(id); }
std::size_t ClusterState::task_count() const { return tables_->tasks.size(); }

bool ClusterState::each_task(TaskId from, std::size_t limit,
                             const std::function<void(const TaskRecord&)>& visit) const {
  std::size_t seen = 0;
  bool more = false;
  tables_->tasks.each(from, [&](const TaskRecord& task) {
    more = seen == limit;
    if (more) return false;
    visit(task);
    ++seen;
    return true;
  });
  return more;
}

void ClusterState::visit_tasks(TaskId from, Order order,
                               const std::function<bool(const TaskRecord&)>& visit) const {
  if (order == Order::kUp) {
    tables_->tasks.each(from, visit);
  } else {
    tables_->tasks.each_down(from, visit);
  }
}

std::uint64_t ClusterState::count_before(const TaskRecord& task) const {
  return tables_->queue.count_before(task);
}

void ClusterState::order_by(WorkloadPolicy& policy) {
  StateTables& t = *tables_;
  t.level_of = [&policy](const TaskSpec& spec, Nanoseconds ran) {
    return policy.level({spec, {}, ran});
  };
  t.queue = {};
  t.tasks.each(TaskId{}, [&t](const TaskRecord& task) {
    if (std::holds_alternative<Pending>(task.state)) t.enqueue(*t.tasks.find(task.id));
    return true;
  });
}

std::optional<TaskId> ClusterState::first_in_line(const Ranking& ranking) const {
  Line line(*tables_, ranking);
  if (line.empty()) return std::nullopt;
  return line.take().front;
}

std::optional<TaskId> ClusterState::oldest_pending() const {
  std::optional<TaskId> oldest;
  for (const auto& [key, groups] : tables_->queue.crowds()) {
    for (const auto& [level, fronts] : groups) {
      const TaskId front = fronts.begin()->first;
      if (!oldest || front < *oldest) oldest = front;
    }
  }
  return oldest;
}

bool ClusterState::has_doomed() const { return !tables_->doomed.empty(); }
bool ClusterState::has_freed() const { return !tables_->freed.empty(); }
bool ClusterState::is_freed(const TaskRecord& task) const {
  return std::holds_alternative<Waiting>(task.state) &&
         std::holds_alternative<Pending>(tables_->settled(task));
}

std::optional<Time> ClusterState::next_ready() const {
  if (tables_->delayed.empty()) return std::nullopt;
  return tables_->delayed.begin()->first;
}

const WorkerRecord* ClusterState::find_worker(WorkerId id) const {
  const auto found = tables_->workers.find(id);
  return found == tables_->workers.end() ? nullptr : &found->second;
}

const WorkerRecord* ClusterState::find_worker(std::string_view name) const {
  const Worker* worker = tables_->pool.find(name);
  return worker == nullptr ? nullptr : find_worker(worker->id);
}

std::vector<const WorkerRecord*> ClusterState::workers() const {
  std::vector<const WorkerRecord*> records;
  for (const Worker* worker : tables_->pool.all()) records.push_back(find_worker(worker->id));
  return records;
}

std::vector<AttemptId> ClusterState::attempts_on(WorkerId id, std::size_t limit) const {
  std::vector<AttemptId> attempts;
  const auto found = tables_->attempts.find(id);
  if (found == tables_->attempts.end()) return attempts;
  attempts.reserve(std::min(limit, found->second.size()));
  for (const AttemptId& attempt : found->second) {
    if (attempts.size() == limit) break;
    attempts.push_back(attempt);
  }
  return attempts;
}

const WorkerPool& ClusterState::pool() const { return tables_->pool; }

const UserRecord* ClusterState::find_user(std::string_view name) const {
  const auto found = tables_->users.find(name);
  return found == tables_->users.end() ? nullptr : &found->second;
}

std::vector<const UserRecord*> ClusterState::users() const {
  std::vector<const UserRecord*> records;
  for (const auto& [name, user] : tables_->users) records.push_back(&user);
  return records;
}

const std::array<std::uint64_t, std::variant_size_v<TaskState>>& ClusterState::counts() const {
  return tables_->counts;
}

}  // namespace harmonics::inline in_cluster
