#include "scheduler.h"

#include <algorithm>
#include <exception>

#include <harmonics/base/check.h>

namespace harmonics::inline in_cluster {
namespace {

/// How long after a vain look for victims the next one may come, if nothing else has changed.
constexpr Nanoseconds kRelook = std::chrono::seconds(1);
/// And how soon one must come because levels change as tasks run.
constexpr Nanoseconds kLevelRelook = std::chrono::minutes(1);

bool fits_exactly(const WorkerPool& pool, const Assignment& assignment, const Needs& needs) {
  const Worker* worker = pool.find(assignment.worker);
  if (worker == nullptr || !worker->open || !worker->fits(needs)) return false;
  return worker->gives(assignment.devices, needs);
}

}  // namespace

bool over_quota(const UserRecord& user, const Needs& needs, std::uint32_t gang) {
  const Quota& quota = user.quota;
  if (quota.max_active != 0 && user.active >= quota.max_active) return true;
  return quota.max_gpus != 0 &&
         user.device_units + needs.units() * gang > std::uint64_t{quota.max_gpus} * kWholeDevice;
}

Scheduler::Scheduler(WorkloadPolicy& policy)
    : policy_(policy),
      built_in_(dynamic_cast<SimplePolicy*>(&policy) != nullptr ||
                dynamic_cast<BalancedPolicy*>(&policy) != nullptr ||
                dynamic_cast<FgdPolicy*>(&policy) != nullptr) {}

bool Scheduler::pass(Decisions& step, Sweep::Change change) {
  const StateTables& tables = step.tables();
  const TaskId head_before = reservation_ ? reservation_->head : TaskId{};
  policy_.begin_pass();
  sweep_.begin(change, tables.next_task);
  Line line(tables, ranking(step));
  started_ = 0;
  head_ = nullptr;
  blocked_.clear();
  beside_.clear();
  homeless_.clear();
  vacancies_.clear();
  held_.clear();
  plans_.tidy(tables);
  relook_ = kNever;
  complained_ = false;
  take_turns(step, line, kHeadSteps);
  if (!line.empty() && started_ < step.options().max_starts_per_tick) {
    line.resume(sweep_);
    keep_head(step, line);
    take_turns(step, line, kSweepSteps);
  }
  plans_.look_for_better(step);
  for (const Vacancy& vacancy : vacancies_) step.refresh(vacancy.worker);
  for (const WorkerId worker : held_) step.refresh(worker);
  if (head_ == nullptr || (reservation_ && reservation_->head != head_->id)) reservation_.reset();
  // What was kept for another head may be had now.
  if (head_before != TaskId{} && (!reservation_ || reservation_->head != head_before)) {
    sweep_.widen();
  }
  return sweep_.stop(line.left());
}

// The head of the last pass may stand too far behind to be looked at in each; it must not lose what
// is kept for it meanwhile.
void Scheduler::keep_head(Decisions& step, Line& line) {
  const StateTables& tables = step.tables();
  const TaskRecord* head = reservation_ ? tables.tasks.find(reservation_->head) : nullptr;
  if (head_ != nullptr || head == nullptr || !std::holds_alternative<Pending>(head->state)) return;
  const LaneKey lane = tables.lane_of(*head);
  const TaskId id = head->id;
  const TaskQueue::Fronts* const group = tables.queue.find_group(lane);
  HARMONICS_CHECK(group != nullptr, "task {} is pending and in no lane", id.value);
  if (!take_turn(step, lane, *head)) return;
  ++started_;
  beside_.clear();
  line.started(group, id, tables.queue.find_group(lane) != group);
}

void Scheduler::take_turns(Decisions& step, Line& line, const VainSteps& steps) {
  const StateTables& tables = step.tables();
  in_vain_ = asks_ = 0;
  std::size_t until_proof = kFirstProof;
  std::size_t proof_at = kFirstProof;
  while (!line.empty() && started_ < step.options().max_starts_per_tick &&
         in_vain_ + asks_ * steps.ask < steps.most) {
    const Turn turn = line.take();
    HARMONICS_CHECK(!turn.group->empty(), "user '{}' is in line with no task", turn.user->name);
    // A group is gone once its last task has started.
    const bool last = turn.group->size() == 1 && tables.queue.lanes().at(*turn.lane).size() == 1;
    if (take_turn(step, *turn.lane, tables.known_task(turn.front))) {
      ++started_;
      beside_.clear();  // What has less room now may wait for more: then others delay it no longer.
      until_proof = kFirstProof;
      proof_at = in_vain_ + until_proof;
    } else {
      ++in_vain_;
    }
    if (!last) line.next(turn);
    if (in_vain_ < proof_at) continue;
    until_proof *= kProofStep;
    proof_at = in_vain_ + until_proof;
    if (nothing_left(step)) line.clear();
  }
}

// Whether all that waits needs what was found to be had nowhere.
bool Scheduler::nothing_left(const Decisions& step) {
  if (!gives_all() || head_ == nullptr || vacancies_.empty()) return false;
  const TaskQueue::Kinds& kinds = step.tables().queue.kinds();
  if (kinds.size() > kMaxProofKinds) return false;
  return std::ranges::all_of(kinds, [&](const auto& entry) {
    const auto& [needs, gang] = entry.first;
    return entry.second.special == 0 && is_blocked(step, needs, gang) &&
           (gang > 1 || !may_start_beside_head(step, needs, entry.second));
  });
}

// A policy that gives all that fits has no place for those either that need more.
bool Scheduler::is_blocked(const Decisions& step, const Needs& needs, std::uint32_t gang) {
  const auto needs_less = [&](const auto& kind) {
    const auto& [vain, members] = kind;
    return members <= gang && vain.share <= needs.share && !exceeds(vain, needs) &&
           (!vain.terms || vain.terms == needs.terms);
  };
  if (std::ranges::any_of(blocked_, needs_less)) return true;
  // Shares may be had of workers with whatever is free: too many to look at.
  if (needs.share != kWholeDevice) return false;
  for (std::size_t free = needs.gpus; free <= kMaxDevicesPerWorker; ++free) {
    for (const auto& [key, group] : step.tables().pool.groups_with_free(free)) {
      if (group.first_fit(needs) != nullptr) return false;
    }
  }
  blocked_.emplace(needs, gang);
  return true;
}

bool Scheduler::may_start_beside_head(const Decisions& step, const Needs& needs,
                                      const QueuedKind& kind) {
  Time at{};
  bool fits = false;
  for (const Vacancy& vacancy : vacancies_) {
    at = std::max(at, vacancy.at);
    const Worker& worker = step.tables().pool.at(vacancy.worker);
    if (!worker.fits(needs)) continue;
    fits = true;
    if (beside_.contains(needs)) continue;
    Vacancy left = vacancy;
    if (leaves_room(step, left, worker.choose(needs), needs, vacancy.head)) return true;
  }
  if (!fits) return false;
  beside_.insert(needs);
  // Those that have gone by then, if some are so short.
  const auto shortest = kind.limits.upper_bound(0);
  if (at == kNever || shortest == kind.limits.end()) return false;
  return step.now() + std::chrono::seconds(shortest_of_lane(shortest->first)) +
             step.options().stop_grace <=
         at;
}

bool Scheduler::take_turn(Decisions& step, const LaneKey& lane, const TaskRecord& task) {
  const UserRecord& user = step.tables().known_user(lane.user);
  if (lane.variants.empty() && over_quota(user, lane.needs, lane.gang)) return false;
  const bool pipeline = static_cast<bool>(task.spec().pipeline);
  if (is_homeless(step, lane, task.spec())) return false;
  // A reservation is made only when somebody else could start at the head's expense. A head that
  // no worker here could ever run has none, and the next one takes its place.
  if (head_ != nullptr && vacancies_.empty()) {
    reserve(step, *head_);
    if (vacancies_.empty()) {
      const TaskSpec& spec = head_->spec();
      if (spec.gang == 1 && !spec.pipeline && !spec.terms && spec.variants.empty()) {
        homeless_.push_back(needs_of(spec));
      }
      ++asks_;
      head_ = nullptr;
    }
  }
  if (pipeline) {
    ++asks_;
    const PlanDesk::Turn turn = take_pipeline_turn(step, lane, task);
    const bool leaves_queue = turn == PlanDesk::Turn::kStarted || turn == PlanDesk::Turn::kEnded;
    if (turn != PlanDesk::Turn::kBlocked) return leaves_queue;
  } else if (try_start(step, lane, task)) {
    return true;
  }
  if (head_ == nullptr) {
    head_ = &task;
    preempt(step, task);
  }
  return false;
}

PlanDesk::Turn Scheduler::take_pipeline_turn(Decisions& step, const LaneKey& lane,
                                             const TaskRecord& task) {
  const UserRecord& user = step.tables().known_user(lane.user);
  std::uint32_t most = task.spec().pipeline->stages == 0 ? kMaxPipelineStages : kMaxGangWorkers;
  while (most > 1 && over_quota(user, lane.needs, most)) --most;
  const PlanDesk::Turn turn = plans_.take_turn(step, task, most);
  for (const WorkerId worker : plans_.held()) {
    step.set_aside(worker);
    held_.push_back(worker);
  }
  return turn;
}

// Nobody could ever give what each of its variants needs.
bool Scheduler::is_homeless(const Decisions& step, const LaneKey& lane,
                            const TaskSpec& spec) const {
  const auto hopeless = [&](const Needs& needs) {
    return (!spec.pipeline && exceeds(needs, step.tables().pool.largest())) ||
           std::ranges::any_of(homeless_, [&](const Needs& n) { return !exceeds(n, needs); });
  };
  if (!hopeless(lane.needs)) return false;
  for (std::uint32_t variant = 1; variant <= lane.variants.all().size(); ++variant) {
    if (!hopeless(needs_of(spec, variant))) return false;
  }
  return true;
}

bool Scheduler::try_start(Decisions& step, const LaneKey& lane, const TaskRecord& task) {
  if (lane.variants.empty()) return try_start(step, task, task.spec(), 0);
  const UserRecord& user = step.tables().known_user(lane.user);
  for (const std::uint32_t variant : variant_order(task.spec())) {
    if (over_quota(user, needs_of(task.spec(), variant), lane.gang)) continue;
    if (try_start(step, task, with_variant(task.spec(), variant), variant)) return true;
  }
  return false;
}

bool Scheduler::try_start(Decisions& step, const TaskRecord& task, const TaskSpec& spec,
                          std::uint32_t variant) {
  const auto start = [&](std::vector<Member> members) {
    for (Member& member : members) member.variant = static_cast<std::uint8_t>(variant);
    step.start(task, std::move(members));
    return true;
  };
  const std::pair kind(needs_of(spec), spec.gang);
  if (!blocked_.contains(kind)) {
    if (std::optional<std::vector<Member>> members = place(step, spec)) {
      return start(std::move(*members));
    }
    ++asks_;
    blocked_.insert(kind);
  }
  std::optional<Member> member = place_beside_head(step, spec);
  if (member) return start({std::move(*member)});
  if (!vacancies_.empty() && spec.gang == 1) beside_.insert(kind.first);
  return false;
}

std::optional<std::vector<Member>> Scheduler::place(Decisions& step, const TaskSpec& spec) {
  std::vector<Member> members;
  while (members.size() < spec.gang) {
    const std::optional<Assignment> assignment = ask(step, spec);
    if (!assignment) break;
    members.push_back({assignment->worker, assignment->devices, false, std::nullopt, 0});
    if (spec.gang > 1) step.set_aside(assignment->worker);
  }
  if (spec.gang > 1) {
    for (const Member& member : members) step.refresh(member.worker);
  }
  if (members.size() < spec.gang) return std::nullopt;
  return members;
}

std::optional<Assignment> Scheduler::ask(Decisions& step, const TaskSpec& spec) {
  const WorkerPool& pool = step.tables().pool;
  std::string trouble = "it chose what is not free";
  try {
    const std::optional<Assignment> assignment = policy_.try_assign(pool, spec);
    if (!assignment || fits_exactly(pool, *assignment, needs_of(spec))) return assignment;
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  if (!std::exchange(complained_, true)) {
    step.note("the policy failed for task '{}': {}; 'balanced' decides instead", spec.name,
              trouble);
  }
  return fallback_.try_assign(pool, spec);
}

// On a worker that is kept for the head: only what has gone by then, or leaves it enough.
std::optional<Member> Scheduler::place_beside_head(Decisions& step, const TaskSpec& spec) {
  if (spec.gang > 1 || vacancies_.empty()) return std::nullopt;
  HARMONICS_CHECK(reservation_.has_value(), "{} workers are kept for nobody", vacancies_.size());
  const Needs needs = needs_of(spec);
  Time at{};
  for (const Vacancy& vacancy : vacancies_) at = std::max(at, vacancy.at);
  const Time end = spec.timeout_s == 0 ? kNever
                                       : step.now() + std::chrono::seconds(spec.timeout_s) +
                                             step.options().stop_grace;
  for (Vacancy& vacancy : vacancies_) {
    const Worker& worker = step.tables().pool.at(vacancy.worker);
    if (!worker.fits(needs)) continue;
    const Member member{vacancy.worker, worker.choose(needs), false, std::nullopt, 0};
    if (end <= at && at != kNever) return member;
    if (leaves_room(step, vacancy, member.devices, needs, vacancy.head)) return member;
  }
  return std::nullopt;
}

bool Scheduler::holds(const Decisions& step, const TaskRecord& head) const {
  if (!reservation_ || reservation_->head != head.id) return false;
  return !reservation_->workers.empty() &&
         std::ranges::all_of(reservation_->workers,
                             [&](WorkerId worker) { return step.available(worker); });
}

void Scheduler::reserve(Decisions& step, const TaskRecord& head) {
  vacancies_.clear();
  if (holds(step, head)) {
    const Needs needs = needs_of(head.spec(), reservation_->variant);
    for (const WorkerId worker : reservation_->workers) {
      auto vacancy = find_vacancy(step, step.tables().pool.at(worker), needs);
      if (vacancy) vacancies_.push_back(std::move(*vacancy));
    }
  }
  if (vacancies_.size() < step.gang_of(head)) {
    reservation_ = Reservation{head.id, {}, 0};
    for (const std::uint32_t variant : variant_order(head.spec())) {
      vacancies_ = find_vacancies(step, head, variant);
      reservation_->variant = variant;
      if (!vacancies_.empty()) break;
    }
    for (const Vacancy& vacancy : vacancies_) reservation_->workers.push_back(vacancy.worker);
  }
  for (const Vacancy& vacancy : vacancies_) step.set_aside(vacancy.worker);
}

void Scheduler::preempt(Decisions& step, const TaskRecord& head) {
  const Nanoseconds pause = ranking(step).displaces() ? kLevelRelook : kRelook;
  if (looked_for_ == head.id && step.now() < looked_ + pause) {
    relook_ = looked_ + pause;
    return;
  }
  looked_for_ = head.id;
  looked_ = step.now();
  // Victims that were asked to stop for this head are on their way out: do not ask others too.
  if (holds(step, head)) {
    for (const WorkerId worker : reservation_->workers) {
      const auto held = step.tables().attempts.find(worker);
      if (held == step.tables().attempts.end()) continue;
      for (const AttemptId id : held->second) {
        const Active& active = running(step.tables().known_task(id.task));
        if (active.stopping == StopReason::kPreempted) return;
      }
    }
  }
  std::optional<Preemption> preemption;
  std::uint32_t variant = 0;
  for (const std::uint32_t one : variant_order(head.spec())) {
    preemption = find_preemption(step, head, one, ranking(step));
    variant = one;
    if (preemption) break;
  }
  if (!preemption) {
    if (ranking(step).displaces()) relook_ = step.now() + kLevelRelook;
    return;
  }
  reservation_ = Reservation{head.id, preemption->workers, variant};
  for (const TaskId victim : preemption->victims) {
    step.stop(step.tables().known_task(victim), StopReason::kPreempted);
  }
}

}  // namespace harmonics::inline in_cluster
