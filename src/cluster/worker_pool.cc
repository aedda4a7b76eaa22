#include <harmonics/cluster/worker_pool.h>

#include <algorithm>
#include <array>
#include <bit>
#include <list>
#include <unordered_map>

#include <harmonics/base/check.h>

namespace harmonics::inline in_cluster {
namespace {

std::uint32_t magnitude(std::uint64_t megabytes) {
  return static_cast<std::uint32_t>(std::bit_width(megabytes));
}

WorkerGroup::Key key_of(const Worker& worker) {
  WorkerGroup::Key key;
  key.devices = static_cast<std::uint32_t>(worker.spec.devices.size());
  key.active_tasks = worker.active_tasks;
  key.free_memories_mb.reserve(worker.free.size());
  worker.free.each([&](DeviceId id) {
    key.free_memories_mb.push_back(worker.spec.devices[id.value].memory_mb);
  });
  std::ranges::sort(key.free_memories_mb);
  key.free_cpus = worker.free_cpus;
  key.memory_magnitude = magnitude(worker.free_memory_mb);
  for (const std::uint32_t room : worker.rooms) {
    if (room > 0) key.rooms.push_back(room);
  }
  std::ranges::sort(key.rooms);
  return key;
}

std::pair<WorkerPool::Load, std::int64_t> spread_key(const WorkerGroup::Key& key) {
  return {{key.active_tasks, std::max(key.devices, 1U)},
          -static_cast<std::int64_t>(key.free_memories_mb.size())};
}

/// The larger of each.
Needs larger(const Needs& most, const WorkerSpec& spec) {
  Needs needs = most;
  needs.gpus = std::max(needs.gpus, static_cast<std::uint32_t>(spec.devices.size()));
  for (const DeviceSpec& device : spec.devices) {
    needs.gpu_memory_mb = std::max(needs.gpu_memory_mb, device.memory_mb);
  }
  needs.cpus = std::max(needs.cpus, spec.cpus);
  needs.memory_mb = std::max(needs.memory_mb, spec.memory_mb);
  return needs;
}

/// Removed workers that a copy can still be told of.
constexpr std::size_t kMaxRemoved = 1024;

}  // namespace

bool WorkerGroup::may_fit(const Needs& needs) const {
  if (key.free_cpus < needs.cpus || key.memory_magnitude < magnitude(needs.memory_mb)) return false;
  const auto& free = key.free_memories_mb;
  if (needs.share != kWholeDevice && needs.gpus == 1) {
    return (!free.empty() && free.back() >= needs.gpu_memory_mb) ||
           (!key.rooms.empty() && key.rooms.back() >= needs.share);
  }
  if (free.size() < needs.gpus) return false;
  return needs.gpus == 0 || free[free.size() - needs.gpus] >= needs.gpu_memory_mb;
}

const Worker* WorkerGroup::first_fit(const Needs& needs) const {
  if (!may_fit(needs)) return nullptr;
  const bool plain = needs.plain();
  for (const Worker* worker : members) {
    if (plain ? worker->free_memory_mb >= needs.memory_mb : worker->fits(needs)) return worker;
  }
  return nullptr;
}

struct WorkerPool::Tables {
  struct Slot {
    Worker worker;
    WorkerGroup* group = nullptr;  ///< Null while the worker is closed.
    std::uint64_t changed = 0;
    std::list<Slot*>::iterator place;  ///< In `recent`.
  };

  std::unordered_map<WorkerId, std::unique_ptr<Slot>> slots;
  std::set<const Worker*, ByName> by_name;
  std::array<std::map<WorkerGroup::Key, WorkerGroup>, kMaxDevicesPerWorker + 1> by_free;
  Spread spread;
  Needs largest;
  bool largest_known = true;
  /// How many could run what was asked for last.
  Needs counted;
  std::size_t capable = 0;
  std::size_t capable_enough = 0;  ///< Counted so far; 0: not at all.
  std::uint64_t version = 0;
  std::list<Slot*> recent;  ///< By their last change.
  std::vector<std::pair<std::uint64_t, WorkerId>> removed;
  std::uint64_t removed_from = 0;  ///< Older removals are not known.

  void touch(Slot& slot) {
    slot.changed = ++version;
    recent.splice(recent.end(), recent, slot.place);
  }
  Slot& put_slot(WorkerId id) {
    auto& slot = slots[id];
    if (slot == nullptr) {
      slot = std::make_unique<Slot>();
      slot->worker.id = id;
      slot->place = recent.insert(recent.end(), slot.get());
    } else {
      leave_group(*slot);
      by_name.erase(&slot->worker);
      largest_known = false;
    }
    capable_enough = 0;
    return *slot;
  }
  /// Once its spec is set.
  void enter(Slot& slot) {
    slot.worker.order = natural_key(slot.worker.spec.name);
    if (largest_known) largest = larger(largest, slot.worker.spec);
    by_name.insert(&slot.worker);
    join_group(slot);
    touch(slot);
  }

  Slot& at(WorkerId id) {
    const auto found = slots.find(id);
    HARMONICS_CHECK(found != slots.end(), "no worker with number {}", id.value);
    return *found->second;
  }

  void leave_group(Slot& slot) {
    WorkerGroup* group = std::exchange(slot.group, nullptr);
    if (group == nullptr) return;
    const std::size_t left = group->members.erase(&slot.worker);
    HARMONICS_CHECK(left == 1, "worker '{}' is not in its group", slot.worker.spec.name);
    if (!group->members.empty()) return;
    const auto place = spread.find(spread_key(group->key));
    HARMONICS_CHECK(place != spread.end() && place->second.contains(group),
                    "the group of worker '{}' is not spread", slot.worker.spec.name);
    place->second.erase(group);
    if (place->second.empty()) spread.erase(place);
    auto& groups = by_free[group->key.free_memories_mb.size()];
    groups.erase(groups.find(group->key));
  }

  void join_group(Slot& slot) {
    if (!slot.worker.open || slot.worker.starting >= kMaxStartingTasks) return;
    HARMONICS_CHECK(slot.group == nullptr, "worker '{}' is in two groups", slot.worker.spec.name);
    WorkerGroup::Key key = key_of(slot.worker);
    auto& groups = by_free[key.free_memories_mb.size()];
    const auto [place, added] = groups.try_emplace(std::move(key));
    WorkerGroup& group = place->second;
    if (added) {
      group.key = place->first;
      spread[spread_key(group.key)].insert(&group);
    }
    group.members.insert(&slot.worker);
    slot.group = &group;
  }
};

WorkerPool::WorkerPool() : tables_(std::make_unique<Tables>()) {}
WorkerPool::~WorkerPool() = default;

void WorkerPool::put(WorkerId id, const WorkerSpec& spec) {
  Tables::Slot& slot = tables_->put_slot(id);
  Worker& worker = slot.worker;
  HARMONICS_CHECK(worker.active_tasks == 0, "worker '{}' changed while it had tasks",
                  worker.spec.name);
  worker.spec = spec;
  worker.free = first_devices(spec.devices.size());
  worker.rooms.clear();
  worker.sharing = 0;
  worker.groups.clear();
  worker.free_resources.clear();
  for (const auto& [name, count] : spec.resources) worker.free_resources.push_back(count);
  worker.free_cpus = spec.cpus;
  worker.free_memory_mb = spec.memory_mb;
  tables_->enter(slot);
}

void WorkerPool::mirror(const Worker& worker) {
  Tables::Slot& slot = tables_->put_slot(worker.id);
  slot.worker = worker;
  tables_->enter(slot);
}

void WorkerPool::remove(WorkerId id) {
  Tables::Slot& slot = tables_->at(id);
  tables_->leave_group(slot);
  tables_->by_name.erase(&slot.worker);
  tables_->recent.erase(slot.place);
  tables_->slots.erase(id);
  tables_->largest_known = false;
  tables_->capable_enough = 0;
  if (tables_->removed.size() == kMaxRemoved) {
    tables_->removed_from = tables_->removed.back().first;
    tables_->removed.clear();
  }
  tables_->removed.emplace_back(++tables_->version, id);
}

std::uint64_t WorkerPool::version() const { return tables_->version; }

WorkerPool::Changes WorkerPool::changes_since(std::uint64_t version) const {
  Changes changes;
  changes.whole = version == 0 || version < tables_->removed_from;
  for (auto slot = tables_->recent.rbegin(); slot != tables_->recent.rend(); ++slot) {
    if (!changes.whole && (*slot)->changed <= version) break;
    changes.workers.push_back(&(*slot)->worker);
  }
  for (const auto& [at, id] : tables_->removed) {
    if (!changes.whole && at > version) changes.removed.push_back(id);
  }
  return changes;
}

void WorkerPool::set_open(WorkerId id, bool open) {
  Tables::Slot& slot = tables_->at(id);
  if (slot.worker.open == open) return;
  tables_->leave_group(slot);
  slot.worker.open = open;
  tables_->join_group(slot);
  tables_->touch(slot);
}

void WorkerPool::describe(WorkerId id, const WorkerSpec& spec) {
  Tables::Slot& slot = tables_->at(id);
  slot.worker.spec.no_stages = spec.no_stages;
  if (slot.worker.spec.labels == spec.labels) return;
  slot.worker.spec.labels = spec.labels;
  tables_->capable_enough = 0;
  tables_->touch(slot);
}

void WorkerPool::take(WorkerId id, DeviceSet devices, const Needs& needs, bool launched) {
  Tables::Slot& slot = tables_->at(id);
  tables_->leave_group(slot);
  slot.worker.take(devices, needs, launched);
  tables_->join_group(slot);
  tables_->touch(slot);
}

void WorkerPool::launch(WorkerId id) {
  Tables::Slot& slot = tables_->at(id);
  HARMONICS_CHECK(slot.worker.starting > 0, "worker '{}' launched what it did not have",
                  slot.worker.spec.name);
  if (slot.worker.starting-- == kMaxStartingTasks) tables_->join_group(slot);
  tables_->touch(slot);
}

void WorkerPool::give_back(WorkerId id, DeviceSet devices, const Needs& needs, bool launched) {
  Tables::Slot& slot = tables_->at(id);
  tables_->leave_group(slot);
  slot.worker.give_back(devices, needs, launched);
  tables_->join_group(slot);
  tables_->touch(slot);
}

const Worker* WorkerPool::find(WorkerId id) const {
  const auto found = tables_->slots.find(id);
  return found == tables_->slots.end() ? nullptr : &found->second->worker;
}

const Worker& WorkerPool::at(WorkerId id) const { return tables_->at(id).worker; }

const Worker* WorkerPool::find(std::string_view name) const {
  Worker wanted;
  wanted.spec.name = name;
  wanted.order = natural_key(name);
  const auto found = tables_->by_name.find(&wanted);
  return found == tables_->by_name.end() ? nullptr : *found;
}

std::size_t WorkerPool::size() const { return tables_->slots.size(); }

const Needs& WorkerPool::largest() const {
  if (!std::exchange(tables_->largest_known, true)) {
    tables_->largest = {};
    for (const Worker* worker : tables_->by_name) {
      tables_->largest = larger(tables_->largest, worker->spec);
    }
  }
  return tables_->largest;
}

std::size_t WorkerPool::count_capable(const Needs& needs, std::size_t enough) const {
  if (exceeds(needs, largest())) return 0;
  Tables& t = *tables_;
  if (t.counted != needs || t.capable_enough < enough) {
    t.counted = needs;
    t.capable = 0;
    t.capable_enough = enough;
    for (const Worker* worker : t.by_name) {
      if (t.capable == enough) break;
      if (could_ever_fit(worker->spec, needs)) ++t.capable;
    }
  }
  return std::min(t.capable, enough);
}

std::vector<const Worker*> WorkerPool::all() const {
  return {tables_->by_name.begin(), tables_->by_name.end()};
}

const std::map<WorkerGroup::Key, WorkerGroup>& WorkerPool::groups_with_free(
    std::size_t free) const {
  return tables_->by_free.at(free);
}

const WorkerPool::Spread& WorkerPool::spread() const { return tables_->spread; }

}  // namespace harmonics::inline in_cluster
