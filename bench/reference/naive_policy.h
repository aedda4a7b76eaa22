// The two policies as one would first write them: look at every worker, keep the best.
#pragma once

#include <algorithm>
#include <optional>

#include <harmonics/cluster/policy.h>

namespace harmonics::reference {

/// The worker that fits and comes first by `better(a, b)`.
template <typename Better>
std::optional<Assignment> best_worker(const WorkerPool& pool, const TaskSpec& task, Better better) {
  const Needs needs = needs_of(task);
  const Worker* best = nullptr;
  for (const Worker* worker : pool.all()) {
    if (!worker->open || !worker->fits(needs)) continue;
    if (best == nullptr || better(*worker, *best)) best = worker;
  }
  if (best == nullptr) return std::nullopt;
  return Assignment{best->id, best->choose(needs)};
}

inline std::uint64_t surplus_mb(const Worker& worker, const Needs& needs) {
  std::uint64_t sum = 0;
  worker.choose(needs).each(
      [&](DeviceId id) { sum += worker.spec.devices[id.value].memory_mb - needs.gpu_memory_mb; });
  return sum;
}

inline std::optional<Assignment> naive_simple(const WorkerPool& pool, const TaskSpec& task) {
  const Needs needs = needs_of(task);
  return best_worker(pool, task, [&](const Worker& a, const Worker& b) {
    if (a.free.size() != b.free.size()) return a.free.size() < b.free.size();
    const std::uint64_t surplus_a = surplus_mb(a, needs);
    const std::uint64_t surplus_b = surplus_mb(b, needs);
    if (surplus_a != surplus_b) return surplus_a < surplus_b;
    return natural_less(a.spec.name, b.spec.name);
  });
}

inline std::optional<Assignment> naive_balanced(const WorkerPool& pool, const TaskSpec& task) {
  const auto load = [](const Worker& worker) {
    return static_cast<double>(worker.active_tasks) /
           static_cast<double>(std::max<std::size_t>(1, worker.spec.devices.size()));
  };
  return best_worker(pool, task, [&](const Worker& a, const Worker& b) {
    if (load(a) != load(b)) return load(a) < load(b);
    if (a.free.size() != b.free.size()) return a.free.size() > b.free.size();
    return natural_less(a.spec.name, b.spec.name);
  });
}

}  // namespace harmonics::reference
