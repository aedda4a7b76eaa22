#include "witness.h"

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_sim {
namespace {

template <typename... Args>
[[noreturn]] void promise_broken(FormatString<Args...> text, Args&&... args) {
  fail(ErrorCode::kInternal, "promise broken: {}", format(text, std::forward<Args>(args)...));
}

}  // namespace

void Witness::launched(std::size_t machine, AttemptId id, DeviceSet devices, std::uint32_t share) {
  if (!begun_.insert({machine, id}).second) {
    promise_broken("attempt {} started twice on machine {}", to_string(id), machine);
  }
  for (const Process& other : alive_) {
    if (other.id.task == id.task && other.id.attempt != id.attempt) {
      promise_broken("task {}: attempts {} and {} run at once", id.task.value,
                     other.id.attempt.value, id.attempt.value);
    }
  }
  devices.each([&](DeviceId device) {
    std::uint32_t units = share;
    for (const Process& other : alive_) {
      if (other.machine == machine && other.devices.has(device)) units += other.share;
    }
    if (units <= kWholeDevice) return;
    promise_broken("machine {}: with attempt {} device {} is given out to {} of {}", machine,
                   to_string(id), device.value, units, kWholeDevice);
  });
  const auto outcome = outcomes_.find(id.task);
  if (outcome != outcomes_.end() && outcome->second == TaskOutcome::kSucceeded) {
    promise_broken("attempt {} starts though its task has succeeded", to_string(id));
  }
  alive_.push_back({machine, id, devices, share});
}

void Witness::ended(std::size_t machine, AttemptId id, const EndResult& result) {
  std::erase_if(alive_, [&](const Process& process) {
    return process.machine == machine && process.id == id;
  });
  truth_.emplace(id, result.kind);
}

void Witness::cut_off(AttemptId id, OnDisconnect wish, bool leased) const {
  if (wish == OnDisconnect::kForever || (wish == OnDisconnect::kContinue && leased)) {
    promise_broken("attempt {} was stopped though it wished to {}", to_string(id), to_string(wish));
  }
}

void Witness::stored(const std::vector<Fact>& facts) {
  for (const Fact& fact : facts) {
    std::visit([&](const auto& one) { see(one); }, fact);
    state_.apply(fact);
    if (const auto* start = std::get_if<AttemptStarted>(&fact)) check_quota(start->id.task);
  }
}

void Witness::check_quota(TaskId started) const {
  const UserRecord& user = *state_.find_user(state_.find_task(started)->submission->user);
  const std::uint32_t most = user.quota.max_gpus;
  if (most != 0 && user.device_units > std::uint64_t{most} * kWholeDevice) {
    promise_broken("user {} has {} units of devices, the quota is {} devices", user.name,
                   user.device_units, most);
  }
}

void Witness::see(const TasksSubmitted& fact) {
  if (fact.submission->first != state_.next_task()) promise_broken("a task id was used twice");
}

void Witness::see(const AttemptStarted& fact) {
  const TaskRecord* task = state_.find_task(fact.id.task);
  if (task == nullptr) promise_broken("attempt {} of no task", to_string(fact.id));
  std::set<WorkerId> workers;
  for (const Member& member : fact.members) workers.insert(member.worker);
  const std::size_t gang = task->spec().pipeline ? workers.size() : task->spec().gang;
  if (workers.empty() || workers.size() != gang || fact.members.size() != gang) {
    promise_broken("attempt {} started on {} workers, its gang is {}", to_string(fact.id),
                   workers.size(), gang);
  }
  for (const Member& member : fact.members) count(task->spec(), member);
  for (const TaskId id : task->spec().depends_on) {
    const auto outcome = outcomes_.find(id);
    if (outcome == outcomes_.end() || outcome->second != TaskOutcome::kSucceeded) {
      promise_broken("attempt {} started before task {} had succeeded", to_string(fact.id),
                     id.value);
    }
  }
}

void Witness::count(const TaskSpec& spec, const Member& member) {
  const Needs needs = needs_of(spec, member.variant);
  const WorkerSpec& worker = state_.find_worker(member.worker)->spec;
  Given& given = given_[member.worker];
  if (member.devices.size() != needs.gpus) {
    promise_broken("task '{}' has {} devices, not {}", spec.name, member.devices.size(),
                   needs.gpus);
  }
  member.devices.each([&](DeviceId id) {
    if (id.value >= worker.devices.size()) promise_broken("a device that is not there");
    if ((given.devices[id.value] += needs.share) > kWholeDevice) {
      promise_broken("task '{}': device {} is leased to {} of {}", spec.name, id.value,
                     given.devices[id.value], kWholeDevice);
    }
    const auto& models = needs.terms ? needs.terms->gpu_models : std::vector<std::string>{};
    const bool right = models.empty() || std::ranges::any_of(models, [&](const auto& wanted) {
                         return is_model(worker.devices[id.value].model, wanted);
                       });
    if (!right) promise_broken("task '{}' has a device of another model", spec.name);
  });
  given.cpus += needs.cpus;
  if (given.cpus > worker.cpus) promise_broken("{} cores of {}", given.cpus, worker.cpus);
  if (!needs.terms) return;
  for (const auto& [name, wanted] : needs.terms->resources) {
    if ((given.resources[name] += wanted) > count_of(worker.resources, name)) {
      promise_broken("task '{}': more of '{}' than there is", spec.name, name);
    }
  }
  for (const auto& label : needs.terms->labels) {
    if (std::ranges::find(worker.labels, label) == worker.labels.end()) {
      promise_broken("task '{}' runs without its label", spec.name);
    }
  }
  const std::string& group = needs.terms->apart;
  if (!group.empty() && ++given.groups[group] > 1) {
    promise_broken("two tasks of the group '{}' run together", group);
  }
}

void Witness::discount(const TaskSpec& spec, const Member& member) {
  const Needs needs = needs_of(spec, member.variant);
  Given& given = given_[member.worker];
  member.devices.each([&](DeviceId id) { given.devices[id.value] -= needs.share; });
  given.cpus -= needs.cpus;
  if (!needs.terms) return;
  for (const auto& [name, count] : needs.terms->resources) given.resources[name] -= count;
  if (!needs.terms->apart.empty()) --given.groups[needs.terms->apart];
}

void Witness::see(const MemberEnded& fact) {
  const TaskRecord* ended = state_.find_task(fact.id.task);
  const auto* active = ended == nullptr ? nullptr : std::get_if<Active>(&ended->state);
  if (active != nullptr && fact.rank < active->members.size()) {
    discount(ended->spec(), active->members[fact.rank]);
  }
  if (!member_ends_.insert({fact.id, fact.rank}).second) {
    promise_broken("attempt {} ended twice", to_string(fact.id));
  }
  if (fact.result.kind != EndKind::kSucceeded) return;
  const auto [first, last] = truth_.equal_range(fact.id);
  const bool true_success = std::any_of(
      first, last, [](const auto& entry) { return entry.second == EndKind::kSucceeded; });
  if (!true_success) promise_broken("attempt {} did not really succeed", to_string(fact.id));
}

void Witness::see(const TaskEnded& fact) {
  if (fact.outcome == TaskOutcome::kFailed && fact.last && fact.last->kind == EndKind::kUnable) {
    promise_broken("task {} failed for what its worker lacked", fact.task.value);
  }
  const bool lost =
      fact.last && (fact.last->kind == EndKind::kLost || fact.last->kind == EndKind::kLeaseLost);
  const TaskRecord* task = state_.find_task(fact.task);
  if (fact.outcome == TaskOutcome::kFailed && lost && task->losses + 1 != task->spec().max_losses) {
    promise_broken("task {} failed after {} losses, its limit is {}", fact.task.value,
                   task->losses + 1, task->spec().max_losses);
  }
  if (!outcomes_.emplace(fact.task, fact.outcome).second) {
    promise_broken("task {} ended twice", fact.task.value);
  }
  open_.erase(fact.task);
}

void Witness::acknowledged(TaskId first, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const TaskId id{first.value + i};
    if (state_.find_task(id) == nullptr) {
      promise_broken("task {} was acknowledged before it was stored", id.value);
    }
    acknowledged_.insert(id);
    if (!outcomes_.contains(id)) open_.insert(id);
  }
}

bool Witness::all_ended() const { return open_.empty(); }

std::string Witness::unfinished() const {
  std::string text;
  for (const TaskId id : open_) {
    const TaskRecord* task = state_.find_task(id);
    if (task == nullptr) {
      text += format("task {} is gone; ", id.value);
      continue;
    }
    text += format("task {} is {}", id.value, state_name(task->state));
    const Active* active = std::get_if<Active>(&task->state);
    for (const Member& member : active == nullptr ? std::vector<Member>{} : active->members) {
      text +=
          format(", on {} (launched {}, ended {})", state_.find_worker(member.worker)->spec.name,
                 member.launched, member.ended.has_value());
    }
    text += "; ";
  }
  return text;
}

void Witness::check_rest(const ClusterState& state) const {
  if (!(state == state_)) promise_broken("the disk holds another state than was stored");
  for (const TaskId id : acknowledged_) {
    const TaskRecord* task = state.find_task(id);
    if (task == nullptr) promise_broken("acknowledged task {} is lost", id.value);
    const Ended* ended = std::get_if<Ended>(&task->state);
    if (ended == nullptr) promise_broken("task {} never ended", id.value);
    if (ended->outcome == TaskOutcome::kSucceeded && task->attempts.value == 0) {
      promise_broken("task {} succeeded without an attempt", id.value);
    }
  }
  for (const Worker* worker : state.pool().all()) {
    if (worker->free.size() != worker->spec.devices.size() || worker->active_tasks != 0) {
      promise_broken("worker {} has leases left", worker->spec.name);
    }
  }
}

}  // namespace harmonics::inline in_sim
