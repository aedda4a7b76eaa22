#include "reservation.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include <harmonics/base/check.h>

namespace harmonics::inline in_cluster {
namespace {

/// An attempt on a worker and what its end would give back there.
struct Tenant {
  TaskId task;
  std::int32_t priority = 0;
  std::uint32_t level = 0;
  Time since{};
  Time end = kNever;
  bool preemptible = false;
  DeviceSet devices;
  Needs needs;
  bool launched = false;
};

/// Those on a worker, or those of them that `counts` says.
template <typename Counts>
std::vector<Tenant> tenants_of(const Decisions& step, WorkerId worker, Counts counts) {
  std::vector<Tenant> tenants;
  const auto held = step.tables().attempts.find(worker);
  if (held == step.tables().attempts.end()) return tenants;
  for (const AttemptId id : held->second) {
    const TaskRecord& task = step.tables().known_task(id.task);
    const Active& active = running(task);
    if (!counts(task)) continue;
    Tenant tenant{task.id, task.spec().priority, 0, active.since, kNever, !active.stopping, {}, {},
                  false};
    if (active.stopping) {
      tenant.end = step.now() + step.options().stop_grace;
    } else if (task.spec().timeout_s != 0) {
      tenant.end =
          active.since + std::chrono::seconds(task.spec().timeout_s) + step.options().stop_grace;
    }
    if (task.preemptions >= step.options().max_preemptions) tenant.preemptible = false;
    const std::optional<std::uint32_t> rank = step.live_rank(id, worker);
    HARMONICS_CHECK(rank.has_value(), "task {} is listed at worker {} and has ended there",
                    task.id.value, worker.value);
    const Member& member = active.members[*rank];
    tenant.devices = member.devices;
    tenant.launched = member.launched;
    tenant.needs = needs_of(task.spec(), member.variant);
    tenants.push_back(tenant);
  }
  return tenants;
}

std::vector<Tenant> tenants_of(const Decisions& step, WorkerId worker) {
  return tenants_of(step, worker, [](const TaskRecord&) { return true; });
}

void evict(Worker& worker, const Tenant& tenant) {
  worker.give_back(tenant.devices, tenant.needs, tenant.launched);
}

/// Who waits for room, and whom it may displace.
struct Claim {
  const TaskRecord& task;
  const Ranking& ranking;
  Needs needs;
  bool displaces = ranking.displaces();
  std::uint32_t level = displaces ? ranking.level(task) : 0;

  [[nodiscard]] bool precedes(const TaskRecord& other) const {
    const std::int32_t priority = task.spec().priority;
    if (other.spec().priority != priority) return other.spec().priority < priority;
    return displaces && ranking.level(other) > level;
  }
};

/// The fewest, least important and youngest tenants that the claim displaces and that make room on
/// `worker`.
std::optional<std::vector<Tenant>> find_victims(const Decisions& step, const Worker& worker,
                                                const Claim& claim) {
  const Needs& needs = claim.needs;
  std::vector<Tenant> tenants =
      tenants_of(step, worker.id, [&](const TaskRecord& other) { return claim.precedes(other); });
  std::erase_if(tenants, [](const Tenant& tenant) { return !tenant.preemptible; });
  if (tenants.empty() && !worker.fits(needs)) return std::nullopt;
  for (Tenant& tenant : tenants) {
    if (claim.displaces) tenant.level = claim.ranking.level(step.tables().known_task(tenant.task));
  }
  std::ranges::sort(tenants, [](const Tenant& a, const Tenant& b) {
    return std::tuple(a.priority, -std::int64_t{a.level}, -a.since.count(), a.task) <
           std::tuple(b.priority, -std::int64_t{b.level}, -b.since.count(), b.task);
  });
  Worker emptied = worker;
  std::vector<Tenant> victims;
  for (const Tenant& tenant : tenants) {
    if (emptied.fits(needs)) break;
    evict(emptied, tenant);
    victims.push_back(tenant);
  }
  if (!emptied.fits(needs)) return std::nullopt;
  // Spare those that turned out not to be needed, the most important first.
  for (std::size_t i = victims.size(); i-- > 0;) {
    Worker without = worker;
    for (std::size_t j = 0; j < victims.size(); ++j) {
      if (j != i) evict(without, victims[j]);
    }
    if (without.fits(needs)) victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return victims;
}

/// How much of what a head needs: its kind of devices, cores, memory.
struct Amount {
  std::uint64_t devices = 0;
  std::uint64_t cpus = 0;
  std::uint64_t memory_mb = 0;

  [[nodiscard]] Amount plus(const Amount& other) const {
    return {devices + other.devices, cpus + other.cpus, memory_mb + other.memory_mb};
  }
  [[nodiscard]] bool covers(const Amount& other) const {
    return devices >= other.devices && cpus >= other.cpus && memory_mb >= other.memory_mb;
  }
};

/// Attempts whose ends are weighed in every combination; of more the worst is assumed.
constexpr std::size_t kMaxWeighedEnds = 8;

/// What of `devices` and `needs` a task with `head` needs could use. What it does not need at all
/// does not count.
Amount useful(const Worker& worker, DeviceSet devices, const Needs& needs, const Needs& head) {
  Amount amount;
  devices.each([&](DeviceId id) {
    if (head.gpus > 0 && worker.spec.devices[id.value].memory_mb >= head.gpu_memory_mb) {
      ++amount.devices;
    }
  });
  if (head.cpus > 0) amount.cpus = needs.cpus;
  if (head.memory_mb > 0) amount.memory_mb = needs.memory_mb;
  return amount;
}

/// Whether `wanted` fits into `free` with `taken` gone whenever it would have fitted without, no
/// matter which of `ends` have come.
bool never_later(const Amount& free, const Amount& taken, const Amount& wanted,
                 const std::vector<Amount>& ends) {
  // What is short only because of `taken`, in the worst case, is what counts.
  const Amount short_of = wanted.plus(taken);
  const bool enough_anyway = (taken.devices == 0 || free.devices >= short_of.devices) &&
                             (taken.cpus == 0 || free.cpus >= short_of.cpus) &&
                             (taken.memory_mb == 0 || free.memory_mb >= short_of.memory_mb);
  if (enough_anyway) return true;
  if (ends.size() > kMaxWeighedEnds) return false;
  for (std::size_t some = 0; some < std::size_t{1} << ends.size(); ++some) {
    Amount then = free;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if ((some >> i & 1) != 0) then = then.plus(ends[i]);
    }
    if (then.covers(wanted) && !then.covers(short_of)) return false;
  }
  return true;
}

/// The same by trying, for what does not add up over devices or is kept apart: with `devices` and
/// `needs` taken from `worker`, `head` fits whenever it would have fitted without.
bool never_later(const Worker& worker, const Tenant& taken, const Needs& head,
                 const std::vector<Tenant>& ends) {
  if (ends.size() > kMaxWeighedEnds) return false;
  for (std::size_t some = 0; some < std::size_t{1} << ends.size(); ++some) {
    Worker then = worker;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if ((some >> i & 1) != 0) evict(then, ends[i]);
    }
    if (!then.fits(head)) continue;
    then.take(taken.devices, taken.needs, true);
    if (!then.fits(head)) return false;
  }
  return true;
}

}  // namespace

bool leaves_room(const Decisions& step, Vacancy& vacancy, DeviceSet devices, const Needs& needs,
                 const Needs& head) {
  if (vacancy.at != kNever) {
    Worker left = vacancy.then;
    if (!left.can_give(devices, needs)) return false;
    left.take(devices, needs, true);
    if (!left.fits(head)) return false;
    vacancy.then = left;
    return true;
  }
  const Worker& worker = step.tables().pool.at(vacancy.worker);
  const std::vector<Tenant> tenants = tenants_of(step, worker.id);
  const bool adds_up = needs.plain() && head.plain() && worker.sharing == 0;
  if (!adds_up) {
    Tenant taken;
    taken.devices = devices;
    taken.needs = needs;
    return never_later(worker, taken, head, tenants);
  }
  Needs rest;
  rest.cpus = worker.free_cpus;
  rest.memory_mb = worker.free_memory_mb;
  const Amount free = useful(worker, worker.free, rest, head);
  std::vector<Amount> ends;
  for (const Tenant& tenant : tenants) {
    const Amount amount = useful(worker, tenant.devices, tenant.needs, head);
    if (Amount{}.covers(amount)) continue;
    ends.push_back(amount);
  }
  return never_later(free, useful(worker, devices, needs, head),
                     {head.gpus, head.cpus, head.memory_mb}, ends);
}

std::optional<Vacancy> find_vacancy(const Decisions& step, const Worker& worker,
                                    const Needs& needs) {
  Vacancy vacancy{worker.id, step.now(), 0, worker, needs};
  std::vector<Tenant> tenants = tenants_of(step, worker.id);
  std::ranges::sort(tenants, [](const Tenant& a, const Tenant& b) {
    return std::tuple(a.end, a.task) < std::tuple(b.end, b.task);
  });
  for (const Tenant& tenant : tenants) {
    if (vacancy.then.fits(needs)) break;
    evict(vacancy.then, tenant);
    vacancy.at = tenant.end;
    ++vacancy.waits;
  }
  if (!vacancy.then.fits(needs)) return std::nullopt;
  return vacancy;
}

std::vector<const Worker*> capable_workers(const Decisions& step, const TaskSpec& spec,
                                           std::uint32_t variant) {
  const Needs needs = needs_of(spec, variant);
  std::vector<const Worker*> capable;
  for (std::size_t free = kMaxDevicesPerWorker + 1; free-- > 0;) {
    for (const auto& [key, group] : step.tables().pool.groups_with_free(free)) {
      if (key.devices < needs.gpus) continue;
      for (const Worker* worker : group.members) {
        if (capable.size() == kMaxReservationCandidates) return capable;
        if (spec.pipeline && worker->spec.no_stages) continue;
        if (could_ever_fit(worker->spec, needs)) capable.push_back(worker);
      }
    }
  }
  return capable;
}

std::vector<Vacancy> find_vacancies(const Decisions& step, const TaskRecord& task,
                                    std::uint32_t variant) {
  const Needs needs = needs_of(task.spec(), variant);
  const std::uint32_t gang = step.gang_of(task);
  std::vector<Vacancy> vacancies;
  for (const Worker* worker : capable_workers(step, task.spec(), variant)) {
    if (std::optional<Vacancy> vacancy = find_vacancy(step, *worker, needs)) {
      vacancies.push_back(std::move(*vacancy));
    }
  }
  if (vacancies.size() < gang) return {};
  std::ranges::stable_sort(vacancies, [](const Vacancy& a, const Vacancy& b) {
    return std::tuple(a.at, a.waits) < std::tuple(b.at, b.waits);
  });
  vacancies.resize(gang);
  return vacancies;
}

std::optional<Preemption> find_preemption(const Decisions& step, const TaskRecord& task,
                                          std::uint32_t variant, const Ranking& ranking) {
  const auto& active = step.tables().active_by_priority;
  if (active.empty()) return std::nullopt;
  if (!ranking.displaces() && active.begin()->first >= task.spec().priority) return std::nullopt;
  struct Choice {
    WorkerId worker;
    std::vector<Tenant> victims;
    std::int32_t worst = 0;  ///< The highest priority among them.
  };
  std::vector<Choice> choices;
  const Claim claim{task, ranking, needs_of(task.spec(), variant)};
  for (const Worker* worker : capable_workers(step, task.spec(), variant)) {
    auto victims = find_victims(step, *worker, claim);
    if (!victims) continue;
    std::int32_t worst = std::numeric_limits<std::int32_t>::min();
    for (const Tenant& victim : *victims) worst = std::max(worst, victim.priority);
    choices.push_back({worker->id, std::move(*victims), worst});
  }
  const std::size_t gang = step.gang_of(task);
  if (choices.size() < gang) return std::nullopt;
  std::ranges::stable_sort(choices, [](const Choice& a, const Choice& b) {
    return std::tuple(a.worst, a.victims.size()) < std::tuple(b.worst, b.victims.size());
  });
  Preemption preemption;
  std::set<TaskId> victims;
  for (std::size_t i = 0; i < gang; ++i) {
    preemption.workers.push_back(choices[i].worker);
    for (const Tenant& victim : choices[i].victims) victims.insert(victim.task);
  }
  preemption.victims.assign(victims.begin(), victims.end());
  return preemption;
}

}  // namespace harmonics::inline in_cluster
