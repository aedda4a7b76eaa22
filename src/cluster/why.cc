// Why a task waits, in words.
#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "advice.h"
#include "reactor_parts.h"
#include "state_tables.h"

namespace harmonics::inline in_cluster {
namespace {

using Reason = WhyPending::Reason;

/// What a task with dependencies waits for.
std::string why_waiting(const ClusterState& state, const TaskSpec& spec) {
  std::string text;
  for (const TaskId id : spec.depends_on) {
    const TaskRecord* task = state.find_task(id);
    const Ended* ended = task == nullptr ? nullptr : std::get_if<Ended>(&task->state);
    if (ended != nullptr && ended->outcome != TaskOutcome::kSucceeded) {
      return format("It can never start, since task {} did not succeed: it is about to end.",
                    id.value);
    }
    if (task == nullptr || ended != nullptr || text.ends_with("...")) continue;
    if (!text.empty()) text += ", ";
    text += text.size() > 200 ? "..." : format("{} ({})", id.value, state_name(task->state));
  }
  return format("It waits for {}.", text.empty() ? "all tasks of an array" : text);
}

/// Whether the worker has room for the task, or for a variant of it.
bool has_room(const Worker& worker, const TaskSpec& spec) {
  if (spec.variants.empty()) return worker.fits(needs_of(spec));
  return std::ranges::any_of(variant_order(spec), [&](std::uint32_t variant) {
    return worker.fits(needs_of(spec, variant));
  });
}

/// How many workers could run the task when empty: of all, and of those here and not draining. How
/// many of these have room now.
struct Capable {
  std::size_t known = 0;
  std::size_t here = 0;
  std::size_t roomy = 0;
};

Capable count_capable(const WorkerPool& pool, const TaskSpec& spec) {
  Capable capable;
  for (const Worker* worker : pool.all()) {
    if (!could_ever_run(worker->spec, spec)) continue;
    ++capable.known;
    if (!worker->open) continue;
    ++capable.here;
    if (has_room(*worker, spec)) ++capable.roomy;
  }
  return capable;
}

/// "w1, w2 and 3 more".
std::string worker_list(const WorkerPool& pool, const std::vector<WorkerId>& workers) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(workers.size(), kNamed); ++i) {
    if (i > 0) text += ", ";
    text += pool.at(workers[i]).spec.name;
  }
  if (workers.size() > kNamed) text += format(" and {} more", workers.size() - kNamed);
  return text;
}

}  // namespace

std::string_view to_string(WhyPending::Reason reason) {
  switch (reason) {
    case Reason::kNotPending: return "not_pending";
    case Reason::kDependencies: return "dependencies";
    case Reason::kBackoff: return "backoff";
    case Reason::kQuota: return "quota";
    case Reason::kImpossible: return "impossible";
    case Reason::kNoWorkers: return "no_workers";
    case Reason::kUnable: return "unable";
    case Reason::kReserved: return "reserved";
    case Reason::kBusy: return "busy";
    case Reason::kPlanning: return "planning";
    case Reason::kPolicy: return "policy";
    case Reason::kTurn: return "turn";
    case Reason::kNext: return "next";
  }
  return "unknown";
}

WhyPending ServerReactor::why(TaskId id, Time now) const {
  const TaskRecord* task = parts_->state.find_task(id);
  if (task == nullptr) fail(ErrorCode::kNotFound, "there is no task {}", id.value);
  const TaskSpec& spec = task->spec();
  if (parts_->state.is_freed(*task)) {
    return {Reason::kDependencies,
            "What it waited for has succeeded: it is queued within the next moments.", 0};
  }
  if (std::holds_alternative<Waiting>(task->state)) {
    return {Reason::kDependencies, why_waiting(parts_->state, spec), 0};
  }
  if (const auto* delayed = std::get_if<Delayed>(&task->state)) {
    return {Reason::kBackoff,
            format("Attempt {} failed; the next one starts in {:.0f} s.", task->attempts.value,
                   std::clamp(in_seconds(delayed->until - now), 0.0,
                              in_seconds(parts_->options.max_backoff))),
            0};
  }
  if (std::holds_alternative<Active>(task->state)) {
    return why_active(*task, now);
  }
  if (std::holds_alternative<Ended>(task->state)) {
    const EndResult* last = std::get<Ended>(task->state).last.get();
    const bool told = last != nullptr && !last->message.empty();
    return {Reason::kNotPending,
            format("It has ended: {}{}.", state_name(task->state),
                   told ? ": " + last->message : std::string()),
            0};
  }
  WhyPending why = with_resting(why_queued(*task, now), *task, now);
  why.text += without_stages(parts_->state.pool(), spec);
  return why;
}

WhyPending ServerReactor::why_queued(const TaskRecord& task, Time now) const {
  const ClusterState& state = parts_->state;
  const TaskSpec& spec = task.spec();
  const std::uint64_t before = state.count_before(task);
  const UserRecord& user = *state.find_user(task.submission->user);
  const bool beyond = std::ranges::all_of(variant_order(spec), [&](std::uint32_t variant) {
    return over_quota(user, needs_of(spec, variant), spec.gang);
  });
  if (beyond) {
    return {Reason::kQuota,
            format("User '{}' has {} tasks active on {} devices; the quota allows {} tasks and {} "
                   "devices (0: any).",
                   user.name, user.active, share_text(user.device_units), user.quota.max_active,
                   user.quota.max_gpus),
            before};
  }
  if (const std::string* problem = parts_->scheduler.plans().problem(task.id)) {
    return {Reason::kImpossible,
            format("There is no plan for its stages on the workers that are free: {}.", *problem),
            before};
  }
  if (parts_->scheduler.plans().planning(task.id)) {
    return {Reason::kPlanning, "The plan of its stages is being made.", before};
  }
  if (state.pool().size() == 0) {
    return {Reason::kNoWorkers, "No worker has joined yet.", before};
  }
  const Capable capable = count_capable(state.pool(), spec);
  // A pipeline that has run goes on with what is left.
  const bool shrinks = spec.pipeline && task.attempts.value > 0;
  const std::size_t gang = shrinks ? 1 : spec.gang;
  if (capable.known < gang) {
    return {Reason::kImpossible,
            format("It needs {}; {} of the {} known workers could ever give that, {} would be "
                   "needed. {}",
                   needs_text(spec), capable.known, state.pool().size(), gang,
                   way_out(state.pool(), spec)),
            before};
  }
  if (capable.here < gang) {
    return {Reason::kNoWorkers,
            format("It needs {}; {} workers could give that, but only {} of them are connected and "
                   "not draining.",
                   needs_text(spec), capable.known, capable.here),
            before};
  }
  if (capable.roomy >= gang) return why_with_room(task, now);
  const std::string busy =
      capable.roomy == 0 ? format("the {} workers that could give that are busy", capable.here)
                         : format("{} of the {} workers that could give that have room",
                                  capable.roomy, capable.here);
  return {Reason::kBusy,
          format("It needs {}; {}. {} tasks are older or more important.", needs_text(spec), busy,
                 before),
          before};
}

WhyPending ServerReactor::why_with_room(const TaskRecord& task, Time now) const {
  const ClusterState& state = parts_->state;
  const Scheduler& scheduler = parts_->scheduler;
  const std::uint64_t before = state.count_before(task);
  if (parts_->pass_due()) {
    // What the next tick does before its pass may change who is there and who waits.
    const std::optional<Time> ready = state.next_ready();
    const bool calm = parts_->sessions.deadline() > now && (!ready || *ready > now);
    if (calm && scheduler.gives_all() && !task.spec().pipeline &&
        state.first_in_line(scheduler.ranking(now)) == task.id) {
      return {Reason::kNext, "It fits and starts at once.", before};
    }
    return {Reason::kTurn,
            format("It fits, and its turn comes within the next passes over the queue; {} tasks "
                   "are older or more important.",
                   before),
            before};
  }
  const auto& reservation = scheduler.reservation();
  const TaskRecord* head = reservation ? state.find_task(reservation->head) : nullptr;
  const auto among = [](const std::vector<WorkerId>& workers, WorkerId id) {
    return std::ranges::find(workers, id) != workers.end();
  };
  std::vector<WorkerId> for_head;
  std::vector<WorkerId> for_plans;
  std::size_t open = 0;
  for (const Worker* worker : state.pool().all()) {
    if (!worker->open || !has_room(*worker, task.spec())) continue;
    if (task.spec().pipeline && worker->spec.no_stages) continue;
    if (head != nullptr && head != &task && among(reservation->workers, worker->id)) {
      for_head.push_back(worker->id);
    } else if (among(scheduler.held(), worker->id)) {
      for_plans.push_back(worker->id);
    } else {
      ++open;
    }
  }
  if (open < task.spec().gang && !for_head.empty()) {
    return {Reason::kReserved,
            format("It would fit on {}, but room there is kept for task {}, which comes first.",
                   worker_list(state.pool(), for_head), head->id.value),
            before, for_head};
  }
  if (open < task.spec().gang && !for_plans.empty()) {
    return {Reason::kReserved,
            format("It would fit on {}, but that is kept for a pipeline whose plan is being made.",
                   worker_list(state.pool(), for_plans)),
            before, for_plans};
  }
  return {Reason::kPolicy, "It fits, but the policy in use gives it no place now.", before};
}

}  // namespace harmonics::inline in_cluster
