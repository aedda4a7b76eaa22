#include <harmonics/cluster/policy.h>

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_cluster {
namespace {

[[noreturn]] void fail_nothing_fits(const TaskSpec& task) {
  fail(ErrorCode::kResourceExhausted,
       "no worker has {} free devices with {} MB each for the task '{}' now",
       task.gpu_share == kWholeDevice ? format("{}", task.required_gpus)
                                      : share_text(task.gpu_share),
       task.min_gpu_memory_mb, task.name);
}

/// Memory on the devices that the group's members would give, beyond what is asked for.
std::uint64_t surplus_mb(const WorkerGroup& group, const Needs& needs) {
  const auto& free = group.key.free_memories_mb;
  auto device = std::ranges::lower_bound(free, needs.gpu_memory_mb);
  // With terms the devices that are meant may be others: what is asked for does not tell them
  // apart.
  if (needs.terms) return 0;
  std::uint64_t surplus = 0;
  for (std::uint32_t i = 0; i < needs.gpus; ++i) surplus += *device++ - needs.gpu_memory_mb;
  return surplus;
}

/// Of all groups with one number of free devices, the best worker.
const Worker* least_surplus(const std::map<WorkerGroup::Key, WorkerGroup>& groups,
                            const Needs& needs) {
  const Worker* best = nullptr;
  std::uint64_t least = 0;
  for (const auto& [key, group] : groups) {
    const Worker* worker = group.first_fit(needs);
    if (worker == nullptr) continue;
    const std::uint64_t surplus = surplus_mb(group, needs);
    if (best == nullptr || surplus < least || (surplus == least && ByName{}(worker, best))) {
      best = worker;
      least = surplus;
    }
  }
  return best;
}

/// For a share: where the least is left of the device, then the fewest devices that are wholly
/// free, then the name.
const Worker* tightest(const WorkerPool& workers, const Needs& needs) {
  const Worker* best = nullptr;
  std::pair<std::uint32_t, std::size_t> least{};
  for (std::size_t free = 0; free <= kMaxDevicesPerWorker; ++free) {
    for (const auto& [key, group] : workers.groups_with_free(free)) {
      const Worker* worker = group.first_fit(needs);
      if (worker == nullptr) continue;
      std::uint32_t room = 0;
      worker->choose(needs).each([&](DeviceId id) { room = worker->room(id); });
      const std::pair left{room, free};
      if (best == nullptr || left < least || (left == least && ByName{}(worker, best))) {
        best = worker;
        least = left;
      }
    }
  }
  return best;
}

/// A task without a time limit counts as one that runs for a day.
double limit_of(const TaskSpec& spec) {
  constexpr double kDay_s = 24 * 3600;
  return spec.timeout_s == 0 ? kDay_s : spec.timeout_s;
}

/// Levels of time: two for each doubling, from a second on.
std::uint32_t half_octaves(double time_s) {
  const double from_one = std::max(time_s, 1.0);
  return static_cast<std::uint32_t>(std::ilogb(from_one * from_one));
}

/// Device seconds below which all tasks are on the first level; each next is four times as wide.
constexpr double kLasStep_s = 3600;

template <typename Policy>
std::unique_ptr<WorkloadPolicy> made() {
  return std::make_unique<Policy>();
}

/// Every policy that has a name.
struct NamedPolicy {
  std::string_view name;
  std::unique_ptr<WorkloadPolicy> (*make)();
};
constexpr NamedPolicy kPolicies[] = {
    {"balanced", made<BalancedPolicy>}, {"simple", made<SimplePolicy>},
    {"fair", made<SimplePolicy>},       {"las", made<LasPolicy>},
    {"srtf", made<SrtfPolicy>},         {"fgd", made<FgdPolicy>},
};

}  // namespace

std::optional<Assignment> WorkloadPolicy::try_assign(const WorkerPool& workers,
                                                     const TaskSpec& task) {
  try {
    return assign_task(workers, task);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kResourceExhausted) return std::nullopt;
    throw;
  }
}

std::uint32_t WorkloadPolicy::level(const Standing& standing) {
  const double limit_s = limit_of(standing.spec);
  return half_octaves(limit_s / (1 + in_seconds(standing.waited) / limit_s));
}

std::uint32_t LasPolicy::level(const Standing& standing) {
  const TaskSpec& spec = standing.spec;
  const double ran_s = in_seconds(standing.ran);
  // What it has had says how much it will still want, unless it tells.
  const double counted_s = spec.timeout_s == 0 ? ran_s : std::max(spec.timeout_s - ran_s, 1.0);
  const double patience = 1 + in_seconds(standing.waited) / std::max(counted_s, kLasStep_s);
  const double devices = static_cast<double>(needs_of(spec).units()) / kWholeDevice;
  const double service_s = counted_s * (devices == 0 ? 1 : devices) * spec.gang / patience;
  if (service_s < kLasStep_s) return 0;
  return 1 + static_cast<std::uint32_t>(std::ilogb(service_s / kLasStep_s) / 2);
}

std::uint32_t SrtfPolicy::level(const Standing& standing) {
  const double left_s = std::max(limit_of(standing.spec) - in_seconds(standing.ran), 1.0);
  return half_octaves(left_s);
}

std::optional<Assignment> SimplePolicy::try_assign(const WorkerPool& workers,
                                                   const TaskSpec& task) {
  const Needs needs = needs_of(task);
  if (needs.share != kWholeDevice) {
    const Worker* worker = tightest(workers, needs);
    if (worker == nullptr) return std::nullopt;
    return Assignment{worker->id, worker->choose(needs)};
  }
  for (std::size_t free = needs.gpus; free <= kMaxDevicesPerWorker; ++free) {
    const Worker* worker = least_surplus(workers.groups_with_free(free), needs);
    if (worker != nullptr) return Assignment{worker->id, worker->choose(needs)};
  }
  return std::nullopt;
}

Assignment SimplePolicy::assign_task(const WorkerPool& workers, const TaskSpec& task) {
  const std::optional<Assignment> assignment = try_assign(workers, task);
  if (!assignment) fail_nothing_fits(task);
  return *assignment;
}

std::optional<Assignment> BalancedPolicy::try_assign(const WorkerPool& workers,
                                                     const TaskSpec& task) {
  const Needs needs = needs_of(task);
  for (const auto& [load_and_free, groups] : workers.spread()) {
    const Worker* best = nullptr;
    for (const WorkerGroup* group : groups) {
      const Worker* worker = group->first_fit(needs);
      if (worker != nullptr && (best == nullptr || ByName{}(worker, best))) best = worker;
    }
    if (best != nullptr) return Assignment{best->id, best->choose(needs)};
  }
  return std::nullopt;
}

Assignment BalancedPolicy::assign_task(const WorkerPool& workers, const TaskSpec& task) {
  const std::optional<Assignment> assignment = try_assign(workers, task);
  if (!assignment) fail_nothing_fits(task);
  return *assignment;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const NamedPolicy& policy : kPolicies) names.emplace_back(policy.name);
  return names;
}

std::unique_ptr<WorkloadPolicy> make_policy(std::string_view name) {
  const auto* const known = std::ranges::find(kPolicies, name, &NamedPolicy::name);
  if (known != std::end(kPolicies)) return known->make();
  fail(ErrorCode::kInvalidArgument,
       "unknown policy '{}'; choose {} or the path of a policy library (.so)", name,
       listed(policy_names()));
}

}  // namespace harmonics::inline in_cluster
