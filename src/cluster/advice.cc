#include "advice.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_cluster {

namespace {

std::string devices_text(const Needs& needs) {
  std::string text;
  if (needs.share != kWholeDevice) {
    text = format("{} of a device with {} MB", share_text(needs.share), needs.gpu_memory_mb);
  } else if (needs.gpus == 1) {
    text = format("a device with {} MB", needs.gpu_memory_mb);
  } else {
    text = format("{} devices with {} MB each", needs.gpus, needs.gpu_memory_mb);
  }
  if (needs.terms && !needs.terms->gpu_models.empty()) {
    text += format(" of the model {}", joined(needs.terms->gpu_models, " or "));
  }
  return text;
}

std::string needs_text(const Needs& needs) {
  std::string text;
  if (needs.gpus > 0) text = devices_text(needs);
  if (needs.cpus > 0) add_item(text, format("{} cores", needs.cpus));
  if (needs.memory_mb > 0) add_item(text, format("{} MB of memory", needs.memory_mb));
  if (needs.terms) {
    for (const auto& [name, count] : needs.terms->resources) {
      add_item(text, format("{} {}", count, name));
    }
    for (const auto& [key, value] : needs.terms->labels) {
      add_item(text, format("the label {}={}", key, value));
    }
    if (!needs.terms->apart.empty()) {
      add_item(text, format("no other task of the group '{}' beside it", needs.terms->apart));
    }
  }
  return text.empty() ? "a worker" : text;
}

/// What no worker has, or has enough of, as far as one thing alone decides.
std::string missing_text(const WorkerPool& pool, const TaskTerms& terms) {
  std::string text;
  const auto all = pool.all();
  for (const auto& [name, wanted] : terms.resources) {
    std::uint64_t most = 0;
    for (const Worker* worker : all) most = std::max(most, count_of(worker->spec.resources, name));
    if (most < wanted)
      add_item(text, format("{} {} (the most is {})", wanted, name, most), " and ");
  }
  for (const auto& label : terms.labels) {
    const bool there = std::ranges::any_of(all, [&](const Worker* worker) {
      return std::ranges::find(worker->spec.labels, label) != worker->spec.labels.end();
    });
    if (!there) add_item(text, format("the label {}={}", label.first, label.second), " and ");
  }
  const bool models =
      terms.gpu_models.empty() || std::ranges::any_of(all, [&](const Worker* worker) {
        return std::ranges::any_of(worker->spec.devices, [&](const auto& device) {
          return std::ranges::any_of(
              terms.gpu_models, [&](const auto& wanted) { return is_model(device.model, wanted); });
        });
      });
  if (!models)
    add_item(text, format("a GPU of the model {}", joined(terms.gpu_models, " or ")), " and ");
  return text;
}

}  // namespace

std::string needs_text(const TaskSpec& spec) {
  std::string text = needs_text(needs_of(spec));
  for (std::uint32_t variant = 1; variant <= spec.variants.all().size(); ++variant) {
    text += ", or " + needs_text(needs_of(spec, variant));
  }
  if (spec.gang > 1) text += format(" on each of {} workers", spec.gang);
  return text;
}

std::string way_out(const WorkerPool& pool, const TaskSpec& spec) {
  const Needs& most = pool.largest();
  const std::string missing = spec.terms ? missing_text(pool, *spec.terms) : std::string();
  if (!missing.empty()) {
    return format("No worker has {}: add workers that have, or ask for less.", missing);
  }
  if (spec.required_gpus > 0 && most.gpus == 0) {
    TaskSpec without = spec;
    without.required_gpus = 0;
    without.gpu_share = kWholeDevice;
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

Advice advice_for(const WorkerPool& pool, const TaskSpec& spec) {
  if (pool.size() == 0) return {};
  std::size_t capable = pool.count_capable(needs_of(spec), spec.gang);
  const std::string stageless = without_stages(pool, spec);
  if (!stageless.empty() || (capable < spec.gang && !spec.variants.empty())) {
    capable = static_cast<std::size_t>(std::ranges::count_if(
        pool.all(), [&](const Worker* worker) { return could_ever_run(worker->spec, spec); }));
  }
  if (capable >= spec.gang) return {};
  const std::string who = capable == 0
                              ? std::string("no worker that is known could run it")
                              : format("only {} of the known workers could run it", capable);
  return {
      format("it needs {}, and {}. {}{}", needs_text(spec), who, way_out(pool, spec), stageless),
      capable == 0};
}

}  // namespace harmonics::inline in_cluster
