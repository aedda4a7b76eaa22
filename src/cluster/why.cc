// Why a task waits, in words.
#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "reactor_parts.h"
#include "state_tables.h"

namespace harmonics {
namespace {

using Reason = WhyPending::Reason;

std::string needs_text(const TaskSpec& spec) {
  std::string text;
  if (spec.required_gpus > 0) {
    text = spec.required_gpus == 1
               ? format("a device with {} MB", spec.min_gpu_memory_mb)
               : format("{} devices with {} MB each", spec.required_gpus, spec.min_gpu_memory_mb);
  }
  const auto add = [&](std::string part) {
    if (!text.empty()) text += ", ";
    text += part;
  };
  if (spec.cpus > 0) add(format("{} cores", spec.cpus));
  if (spec.memory_mb > 0) add(format("{} MB of memory", spec.memory_mb));
  if (text.empty()) text = "a worker";
  if (spec.gang > 1) text += format(" on each of {} workers", spec.gang);
  return text;
}

double seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

std::string task_list(const ClusterState& state, const TaskSpec& spec) {
  std::string text;
  for (const TaskId id : spec.depends_on) {
    const TaskRecord* task = state.find_task(id);
    if (task == nullptr || std::holds_alternative<Ended>(task->state)) continue;
    if (!text.empty()) text += ", ";
    if (text.size() > 200) return text + "...";
    text += format("{} ({})", id.value, state_name(task->state));
  }
  return text.empty() ? "all tasks of an array" : text;
}

/// How many workers could run the task when empty: of all, and of those here and not draining.
struct Capable {
  std::size_t known = 0;
  std::size_t here = 0;
};

}  // namespace

std::string_view to_string(WhyPending::Reason reason) {
  switch (reason) {
    case Reason::kNotPending: return "not_pending";
    case Reason::kDependencies: return "dependencies";
    case Reason::kBackoff: return "backoff";
    case Reason::kQuota: return "quota";
    case Reason::kImpossible: return "impossible";
    case Reason::kNoWorkers: return "no_workers";
    case Reason::kReserved: return "reserved";
    case Reason::kBusy: return "busy";
    case Reason::kNext: return "next";
  }
  return "unknown";
}

WhyPending ServerReactor::why(TaskId id, Time now) const {
  const TaskRecord* task = parts_->state.find_task(id);
  if (task == nullptr) fail(ErrorCode::kNotFound, "there is no task {}", id.value);
  const TaskSpec& spec = task->spec();
  if (std::holds_alternative<Waiting>(task->state)) {
    return {Reason::kDependencies, format("It waits for {}.", task_list(parts_->state, spec)), 0};
  }
  if (const auto* delayed = std::get_if<Delayed>(&task->state)) {
    return {Reason::kBackoff,
            format("Attempt {} failed; the next one starts in {:.0f} s.", task->attempts.value,
                   std::clamp(seconds(delayed->until - now), 0.0,
                              seconds(parts_->options.max_backoff))),
            0};
  }
  if (std::holds_alternative<Active>(task->state)) {
    return {Reason::kNotPending, format("Attempt {} is active.", task->attempts.value), 0};
  }
  if (std::holds_alternative<Ended>(task->state)) {
    return {Reason::kNotPending, format("It has ended: {}.", state_name(task->state)), 0};
  }
  return why_queued(*task);
}

WhyPending ServerReactor::why_queued(const TaskRecord& task) const {
  const ClusterState& state = parts_->state;
  const TaskSpec& spec = task.spec();
  const Needs needs = needs_of(spec);
  const std::uint64_t before = state.count_before(task);
  const UserRecord& user = *state.find_user(task.submission->user);
  if (over_quota(user, needs, spec.gang)) {
    return {Reason::kQuota,
            format("User '{}' has {} tasks active on {} devices; the quota allows {} tasks and {} "
                   "devices (0: any).",
                   user.name, user.active, user.gpus, user.quota.max_active, user.quota.max_gpus),
            before};
  }
  if (const std::string* problem = parts_->scheduler.plans().problem(task.id)) {
    return {Reason::kImpossible,
            format("There is no plan for its stages on the workers that are free: {}.", *problem),
            before};
  }
  Capable capable;
  bool room = false;
  for (const Worker* worker : state.pool().all()) {
    if (!could_ever_fit(worker->spec, needs)) continue;
    ++capable.known;
    if (!worker->open) continue;
    ++capable.here;
    room = room || worker->fits(needs);
  }
  if (state.pool().size() == 0) {
    return {Reason::kNoWorkers, "No worker has joined yet.", before};
  }
  if (capable.known < spec.gang) {
    return {Reason::kImpossible,
            format("It needs {}; {} of the {} known workers could ever give that, {} would be "
                   "needed. Add workers or ask for less.",
                   needs_text(spec), capable.known, state.pool().size(), spec.gang),
            before};
  }
  if (capable.here < spec.gang) {
    return {Reason::kNoWorkers,
            format("It needs {}; {} workers could give that, but only {} of them are connected and "
                   "not draining.",
                   needs_text(spec), capable.known, capable.here),
            before};
  }
  const auto& reservation = parts_->scheduler.reservation();
  if (room && reservation && reservation->head != task.id && !reservation->workers.empty()) {
    return {Reason::kReserved,
            format("It would fit, but room is kept for task {}, which comes first.",
                   reservation->head.value),
            before};
  }
  if (room && spec.gang == 1) return {Reason::kNext, "It fits and starts at once.", before};
  return {Reason::kBusy,
          format("It needs {}; the {} workers that could give that are busy. {} tasks come before "
                 "it.",
                 needs_text(spec), capable.here, before),
          before};
}

}  // namespace harmonics
