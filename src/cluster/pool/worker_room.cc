// What a worker has free, and whether that is enough.
#include <harmonics/cluster/worker_pool.h>

#include <algorithm>

#include <harmonics/base/check.h>

namespace harmonics::inline in_cluster {
namespace {

bool is_one_of(const DeviceSpec& device, const Needs& needs) {
  if (!needs.terms || needs.terms->gpu_models.empty()) return true;
  return std::ranges::any_of(needs.terms->gpu_models, [&](const std::string& wanted) {
    return is_model(device.model, wanted);
  });
}

/// A device of a kind that will do.
bool suits(const DeviceSpec& device, const Needs& needs) {
  return device.memory_mb >= needs.gpu_memory_mb && is_one_of(device, needs);
}

bool has_labels(const WorkerSpec& spec, const TaskTerms& terms) {
  return std::ranges::all_of(terms.labels, [&](const auto& label) {
    return std::ranges::find(spec.labels, label) != spec.labels.end();
  });
}

/// Where a resource stands among the worker's; past the last: it has none.
std::size_t place_of(const WorkerSpec& spec, std::string_view name) {
  const auto found = std::ranges::find(spec.resources, name, &ResourceCounts::value_type::first);
  return static_cast<std::size_t>(found - spec.resources.begin());
}

bool meets(const Worker& worker, const TaskTerms& terms) {
  if (!has_labels(worker.spec, terms)) return false;
  if (!terms.apart.empty() && std::ranges::binary_search(worker.groups, terms.apart)) return false;
  return std::ranges::all_of(terms.resources, [&](const auto& wanted) {
    const std::size_t place = place_of(worker.spec, wanted.first);
    return wanted.second == 0 ||
           (place < worker.free_resources.size() && worker.free_resources[place] >= wanted.second);
  });
}

void move_share(Worker& worker, DeviceId id, std::uint32_t share, bool back) {
  if (!back && worker.free.has(id)) {
    worker.free = worker.free.without({std::uint64_t{1} << id.value});
    if (worker.rooms.empty()) worker.rooms.resize(worker.spec.devices.size());
    worker.rooms[id.value] = kWholeDevice - share;
    return;
  }
  HARMONICS_CHECK(!worker.rooms.empty() && !worker.free.has(id),
                  "device {} of worker '{}' is not given out in shares", id.value,
                  worker.spec.name);
  std::uint32_t& room = worker.rooms[id.value];
  HARMONICS_CHECK(back ? room + share <= kWholeDevice : room >= share,
                  "device {} of worker '{}' has {} units free: {} cannot be {}", id.value,
                  worker.spec.name, room, share, back ? "given back" : "taken");
  room = back ? room + share : room - share;
  if (room < kWholeDevice) return;
  room = 0;
  worker.free.add(id);
}

void move_terms(Worker& worker, const TaskTerms& terms, bool back) {
  for (const auto& [name, count] : terms.resources) {
    const std::size_t place = place_of(worker.spec, name);
    if (count == 0) continue;
    HARMONICS_CHECK(place < worker.free_resources.size(), "worker '{}' has no '{}'",
                    worker.spec.name, name);
    std::uint64_t& free = worker.free_resources[place];
    HARMONICS_CHECK(back ? free + count <= worker.spec.resources[place].second : free >= count,
                    "worker '{}' has {} '{}' free: {} cannot be {}", worker.spec.name, free, name,
                    count, back ? "given back" : "taken");
    free = back ? free + count : free - count;
  }
  if (terms.apart.empty()) return;
  const auto place = std::ranges::lower_bound(worker.groups, terms.apart);
  const bool there = place != worker.groups.end() && *place == terms.apart;
  HARMONICS_CHECK(there == back, "worker '{}' {} a task of the group '{}'", worker.spec.name,
                  there ? "already has" : "has not", terms.apart);
  if (back) {
    worker.groups.erase(place);
  } else {
    worker.groups.insert(place, terms.apart);
  }
}

}  // namespace

bool exceeds(const Needs& needs, const Needs& most) {
  return needs.gpus > most.gpus || needs.gpu_memory_mb > most.gpu_memory_mb ||
         needs.cpus > most.cpus || needs.memory_mb > most.memory_mb;
}

bool could_ever_fit(const WorkerSpec& spec, const Needs& needs) {
  if (spec.cpus < needs.cpus || spec.memory_mb < needs.memory_mb) return false;
  const auto enough = std::ranges::count_if(
      spec.devices, [&](const DeviceSpec& device) { return suits(device, needs); });
  if (static_cast<std::uint64_t>(enough) < needs.gpus) return false;
  if (!needs.terms) return true;
  return has_labels(spec, *needs.terms) &&
         std::ranges::all_of(needs.terms->resources, [&](const auto& wanted) {
           return count_of(spec.resources, wanted.first) >= wanted.second;
         });
}

bool could_ever_run(const WorkerSpec& worker, const TaskSpec& task) {
  if (task.pipeline && worker.no_stages) return false;
  if (task.variants.empty()) return could_ever_fit(worker, needs_of(task));
  return std::ranges::any_of(variant_order(task), [&](std::uint32_t variant) {
    return could_ever_fit(worker, needs_of(task, variant));
  });
}

bool Worker::fits(const Needs& needs) const {
  if (starting >= kMaxStartingTasks) return false;
  if (free_cpus < needs.cpus || free_memory_mb < needs.memory_mb) return false;
  if (needs.terms && !meets(*this, *needs.terms)) return false;
  std::uint32_t enough = 0;
  free.each([&](DeviceId id) {
    if (suits(spec.devices[id.value], needs)) ++enough;
  });
  if (enough >= needs.gpus) return true;
  if (needs.share == kWholeDevice) return false;
  for (std::size_t i = 0; i < rooms.size() && enough < needs.gpus; ++i) {
    if (rooms[i] >= needs.share && suits(spec.devices[i], needs)) ++enough;
  }
  return enough >= needs.gpus;
}

DeviceSet Worker::choose(const Needs& needs) const {
  struct Candidate {
    std::uint32_t room;
    std::uint64_t memory_mb;
    DeviceId id;
    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> candidates;
  const auto consider = [&](DeviceId id) {
    const DeviceSpec& device = spec.devices[id.value];
    if (suits(device, needs)) candidates.push_back({room(id), device.memory_mb, id});
  };
  free.each(consider);
  for (std::size_t i = 0; needs.share < kWholeDevice && i < rooms.size(); ++i) {
    if (rooms[i] >= needs.share) consider(DeviceId{static_cast<std::uint16_t>(i)});
  }
  std::ranges::sort(candidates);
  DeviceSet chosen;
  HARMONICS_CHECK(candidates.size() >= needs.gpus,
                  "worker '{}' was chosen for {} devices and has {} free", spec.name, needs.gpus,
                  candidates.size());
  for (std::uint32_t i = 0; i < needs.gpus; ++i) chosen.add(candidates[i].id);
  return chosen;
}

bool Worker::gives(DeviceSet devices, const Needs& needs) const {
  if (devices.size() != needs.gpus || !first_devices(spec.devices.size()).contains(devices)) {
    return false;
  }
  bool enough = true;
  devices.each([&](DeviceId id) {
    enough = enough && room(id) >= needs.share && suits(spec.devices[id.value], needs);
  });
  return enough;
}

bool Worker::can_give(DeviceSet devices, const Needs& needs) const {
  if (free_cpus < needs.cpus || free_memory_mb < needs.memory_mb) return false;
  if (!first_devices(spec.devices.size()).contains(devices)) return false;
  bool enough = !needs.terms || meets(*this, *needs.terms);
  devices.each([&](DeviceId id) { enough = enough && room(id) >= needs.share; });
  return enough;
}

void Worker::take(DeviceSet devices, const Needs& needs, bool launched) {
  HARMONICS_CHECK(free_cpus >= needs.cpus && free_memory_mb >= needs.memory_mb,
                  "worker '{}' cannot give what is taken", spec.name);
  if (needs.share == kWholeDevice) {
    HARMONICS_CHECK(free.contains(devices), "worker '{}' cannot give what is taken", spec.name);
    free = free.without(devices);
  } else {
    devices.each([&](DeviceId id) { move_share(*this, id, needs.share, false); });
    ++sharing;
  }
  if (needs.terms) move_terms(*this, *needs.terms, false);
  free_cpus -= needs.cpus;
  free_memory_mb -= needs.memory_mb;
  ++active_tasks;
  if (!launched) ++starting;
}

void Worker::give_back(DeviceSet devices, const Needs& needs, bool launched) {
  HARMONICS_CHECK(!free.meets(devices) && active_tasks > 0,
                  "worker '{}' got back what it did not give", spec.name);
  HARMONICS_CHECK(launched || starting > 0,
                  "worker '{}' gives up the start of a task that it did not have", spec.name);
  if (needs.share == kWholeDevice) {
    free = free.with(devices);
  } else {
    devices.each([&](DeviceId id) { move_share(*this, id, needs.share, true); });
    if (--sharing == 0) rooms.clear();
  }
  if (needs.terms) move_terms(*this, *needs.terms, true);
  free_cpus += needs.cpus;
  free_memory_mb += needs.memory_mb;
  HARMONICS_CHECK(free_cpus <= spec.cpus && free_memory_mb <= spec.memory_mb,
                  "worker '{}' got back more than it has", spec.name);
  --active_tasks;
  if (!launched) --starting;
}

}  // namespace harmonics::inline in_cluster
