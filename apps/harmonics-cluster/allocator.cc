#include "allocator.h"

#include <algorithm>

#include <harmonics/base/format.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_cluster_program {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

/// A job that runs for so long without its worker being heard of will not do.
constexpr Nanoseconds kConnectPatience = minutes(5);
/// How long tasks that a free worker could not help do not count.
constexpr Nanoseconds kFruitlessRest = minutes(10);
/// After a failure, doubled with each.
constexpr Nanoseconds kFirstRest = seconds(5);
constexpr Nanoseconds kLastRest = minutes(5);
/// Looks without a job before its worker counts as gone: a list may be a moment old.
constexpr std::uint32_t kGoneLooks = 2;
/// A worker that was free for so long beside a queue is not what the queue waits for.
constexpr Nanoseconds kStillFree = seconds(5);
constexpr std::size_t kMaxFruitless = 10'000;

bool fits(const Needs& needs, const WorkerSpec& shape) {
  const auto large = [&](const DeviceSpec& device) {
    return device.memory_mb >= needs.gpu_memory_mb;
  };
  return needs.gpus <= static_cast<std::uint64_t>(std::ranges::count_if(shape.devices, large)) &&
         needs.cpus <= shape.cpus && needs.memory_mb <= shape.memory_mb;
}

std::uint64_t shares(std::uint64_t asked, std::uint64_t of_each) {
  return asked == 0 ? 0 : (asked + of_each - 1) / std::max<std::uint64_t>(of_each, 1);
}

}  // namespace

std::string Allocator::name_of(std::uint32_t slot) const {
  return format("{}-{}", terms_.name, slot);
}

std::optional<std::uint32_t> Allocator::slot_of(const std::string& worker) const {
  if (!worker.starts_with(terms_.name + "-")) return std::nullopt;
  const auto number = number_from<std::int64_t>(worker.substr(terms_.name.size() + 1));
  if (!number || *number < 1 || *number > kMaxAllocated) return std::nullopt;
  const auto slot = static_cast<std::uint32_t>(*number);
  return name_of(slot) == worker ? std::optional(slot) : std::nullopt;
}

void Allocator::note_started(const std::string& worker, const std::string& job, Nanoseconds now) {
  if (const auto slot = slot_of(worker)) slots_[*slot] = Slot{.job = job, .since = now};
}

void Allocator::note_failure(Nanoseconds now) {
  failures_ = std::min<std::uint32_t>(failures_ + 1, 16);
  start_after_ = now + std::min<Nanoseconds>(kFirstRest * (1 << (failures_ - 1)), kLastRest);
}

bool Allocator::closed(const AllocPicture& picture) const {
  return std::ranges::none_of(picture.jobs,
                              [&](const BatchJob& job) { return slot_of(job.name).has_value(); });
}

std::vector<AllocStep> Allocator::decide(const AllocPicture& picture, Nanoseconds now) {
  steps_.clear();
  queued_.clear();
  for (const QueuedTask& task : picture.queue) queued_.push_back(task.id);
  if (picture.queue.empty()) {
    if (!empty_since_) empty_since_ = now;
  } else {
    empty_since_.reset();
  }
  std::map<std::uint32_t, Found> found;
  for (const auto& [number, slot] : slots_) found[number];  // also those of which nothing is left
  for (const BatchJob& job : picture.jobs) {
    if (const auto slot = slot_of(job.name)) found[*slot].job = &job;
  }
  for (const KnownWorker& worker : picture.workers) {
    const auto slot = slot_of(worker.spec.name);
    if (!slot) continue;
    found[*slot].worker = &worker;
    if (worker.connected) shape_ = worker.spec;
  }
  for (const auto& [number, what] : found) look_at(number, what, now);
  start_missing(picture, now);
  return std::move(steps_);
}

void Allocator::look_at(std::uint32_t number, const Found& found, Nanoseconds now) {
  Slot& slot = slots_[number];
  if (found.job == nullptr) return look_at_absence(slot, found.worker, now);
  if (slot.job != found.job->id) slot = Slot{.job = found.job->id, .since = now};
  slot.gone_looks = 0;
  look_at_job(slot, found, now);
}

void Allocator::look_at_absence(Slot& slot, const KnownWorker* worker, Nanoseconds now) {
  if (!slot.job.empty() && !slot.connected && !slot.leaving) note_failure(now);
  slot.job.clear();
  slot.connected = slot.leaving = false;
  slot.idle_since.reset();
  if (worker == nullptr || worker->connected || ++slot.gone_looks < kGoneLooks) return;
  if (worker->tasks > 0) {
    steps_.push_back(ForgetWorker{worker->spec.name, worker->tasks});
  } else if (worker->draining) {
    steps_.push_back(DrainWorker{worker->spec.name, false});  // for when it comes back
  }
}

void Allocator::look_at_job(Slot& slot, const Found& found, Nanoseconds now) {
  const bool here = found.worker != nullptr && found.worker->connected;
  if (here && !slot.connected) {
    slot.connected = true;
    failures_ = 0;
    // Whoever drained it in an earlier life, it was started to work.
    if (found.worker->draining && !terms_.closing) {
      steps_.push_back(DrainWorker{found.worker->spec.name, false});
      return;
    }
  }
  if (here) return note_idle(slot, found, now);
  slot.idle_since.reset();
  if (!slot.connected) give_up_start(slot, *found.job, now);
}

void Allocator::give_up_start(Slot& slot, const BatchJob& job, Nanoseconds now) {
  if (job.running && now - slot.since > kConnectPatience) {
    note_failure(now);
    steps_.push_back(CancelJob{job.name, job.id, "its worker was not heard of"});
    slot.leaving = true;
  } else if (!job.running &&
             (terms_.closing || (empty_since_ && now - *empty_since_ >= terms_.idle))) {
    steps_.push_back(
        CancelJob{job.name, job.id, "it waits for a machine, and nothing waits for it"});
    slot.leaving = true;
  }
}

void Allocator::note_idle(Slot& slot, const Found& found, Nanoseconds now) {
  const KnownWorker& worker = *found.worker;
  if (worker.tasks > 0) {
    slot.idle_since.reset();
    // It got a task in the moment before it was drained.
    if (slot.leaving && !terms_.closing) steps_.push_back(DrainWorker{worker.spec.name, false});
    slot.leaving = slot.leaving && terms_.closing;
    if (terms_.closing && !worker.draining) steps_.push_back(DrainWorker{worker.spec.name});
    return;
  }
  if (!slot.idle_since) slot.idle_since = now;
  if (!terms_.closing && now - *slot.idle_since < terms_.idle) return;
  if (!worker.draining) {
    slot.leaving = true;
    steps_.push_back(DrainWorker{worker.spec.name});
    for (const TaskId task : queued_) {
      if (fruitless_.size() < kMaxFruitless) fruitless_[task.value] = now + kFruitlessRest;
    }
    return;
  }
  slot.leaving = true;
  steps_.push_back(CancelJob{worker.spec.name, found.job->id, "it has nothing to do"});
}

bool Allocator::counts(const QueuedTask& task) const {
  return !fruitless_.contains(task.id.value) && (!shape_ || fits(task.needs, *shape_));
}

std::uint32_t Allocator::wanted(const std::vector<QueuedTask>& queue, Nanoseconds now) {
  std::erase_if(fruitless_, [&](const auto& entry) { return entry.second <= now; });
  std::uint64_t gpus = 0, cpus = 0, memory = 0, members = 0, gang = 0;
  for (const QueuedTask& task : queue) {
    if (!counts(task)) continue;
    members += task.workers;
    gang = std::max<std::uint64_t>(gang, task.workers);
    gpus += std::uint64_t{task.needs.gpus} * task.workers;
    cpus += std::uint64_t{task.needs.cpus} * task.workers;
    memory += task.needs.memory_mb * task.workers;
  }
  std::uint64_t workers = members;
  if (shape_ && members > 0) {
    workers = std::max({std::uint64_t{1}, gang, shares(gpus, shape_->devices.size()),
                        shares(cpus, shape_->cpus), shares(memory, shape_->memory_mb)});
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(workers, terms_.max_workers));
}

void Allocator::start_missing(const AllocPicture& picture, Nanoseconds now) {
  if (terms_.closing || now < start_after_) return;
  // Those that come or have nothing to do will take from the queue before any new one could.
  std::uint32_t alive = 0, ahead = 0;
  bool still_free = false;
  for (const auto& [number, slot] : slots_) {
    if (slot.job.empty()) continue;
    ++alive;
    const bool free = slot.connected && slot.idle_since && !slot.leaving;
    if (!slot.connected || free) ++ahead;
    still_free = still_free || (free && now - *slot.idle_since >= kStillFree);
  }
  const auto alone = [](const QueuedTask& task) { return task.workers <= 1; };
  if (still_free && std::ranges::all_of(picture.queue, alone)) return;
  const std::uint32_t demand = wanted(picture.queue, now);
  const std::uint32_t room = terms_.max_workers - std::min(alive, terms_.max_workers);
  std::uint32_t missing = std::min(room, demand - std::min(demand, ahead));
  for (std::uint32_t number = 1; number <= terms_.max_workers && missing > 0; ++number) {
    if (!slots_[number].job.empty()) continue;
    steps_.push_back(StartWorker{name_of(number)});
    --missing;
  }
}

}  // namespace harmonics::inline in_cluster_program
