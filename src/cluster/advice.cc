#include "advice.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_cluster {

std::string needs_text(const TaskSpec& spec) {
  std::string text;
  if (spec.required_gpus > 0) {
    text = spec.required_gpus == 1
               ? format("a device with {} MB", spec.min_gpu_memory_mb)
               : format("{} devices with {} MB each", spec.required_gpus, spec.min_gpu_memory_mb);
  }
  if (spec.cpus > 0) add_item(text, format("{} cores", spec.cpus));
  if (spec.memory_mb > 0) add_item(text, format("{} MB of memory", spec.memory_mb));
  if (text.empty()) text = "a worker";
  if (spec.gang > 1) text += format(" on each of {} workers", spec.gang);
  return text;
}

std::string way_out(const WorkerPool& pool, const TaskSpec& spec) {
  const Needs& most = pool.largest();
  if (spec.required_gpus > 0 && most.gpus == 0) {
    TaskSpec without = spec;
    without.required_gpus = 0;
    const bool runs = pool.count_capable(needs_of(without), spec.gang) >= spec.gang;
    return runs ? "No worker has a GPU: with --gpus 0 it would run."
                : "No worker has a GPU: add workers that have.";
  }
  if (exceeds(needs_of(spec), most)) {
    std::string text = format("The most that a worker has is {} cores, {} MB of memory", most.cpus,
                              most.memory_mb);
    if (most.gpus > 0) {
      text += format(", {} GPUs, {} MB on a GPU", most.gpus, most.gpu_memory_mb);
    }
    return text + ": add workers or ask for less.";
  }
  return "Add workers or ask for less.";
}

std::string without_stages(const WorkerPool& pool, const TaskSpec& spec) {
  constexpr std::size_t kNamed = 3;
  if (!spec.pipeline) return {};
  std::string named;
  std::size_t count = 0;
  for (const Worker* worker : pool.all()) {
    if (!worker->spec.no_stages) continue;
    if (++count <= kNamed) add_item(named, worker->spec.name);
  }
  if (count == 0) return {};
  if (count > kNamed) named += format(" and {} more", count - kNamed);
  return format(
      " {} {} no stages: the stages of this cluster speak TLS, and tasks there run as another user "
      "(--task-user), who cannot read the key.",
      named, count == 1 ? "runs" : "run");
}

std::string advice_for(const WorkerPool& pool, const TaskSpec& spec) {
  if (pool.size() == 0) return {};
  std::size_t capable = pool.count_capable(needs_of(spec), spec.gang);
  const std::string stageless = without_stages(pool, spec);
  if (!stageless.empty()) {
    capable = static_cast<std::size_t>(std::ranges::count_if(
        pool.all(), [&](const Worker* worker) { return could_ever_run(worker->spec, spec); }));
  }
  if (capable >= spec.gang) return {};
  const std::string who = capable == 0
                              ? std::string("no worker that is known could run it")
                              : format("only {} of the known workers could run it", capable);
  return format("it waits: it needs {}, and {}. {}{}", needs_text(spec), who, way_out(pool, spec),
                stageless);
}

}  // namespace harmonics::inline in_cluster
