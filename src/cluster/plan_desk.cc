#include "plan_desk.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

namespace harmonics::inline in_cluster {
namespace {

/// Workers that run stages and have room now, in natural order of names.
std::vector<const Worker*> free_workers(const Decisions& step, const TaskSpec& spec,
                                        std::size_t most) {
  const Needs needs = needs_of(spec);
  std::vector<const Worker*> free;
  for (const Worker* worker : step.tables().pool.all()) {
    if (free.size() == most) break;
    if (worker->open && !worker->spec.no_stages && worker->fits(needs)) free.push_back(worker);
  }
  return free;
}

AskPlan question(const TaskRecord& task, const std::vector<const Worker*>& free) {
  const Needs needs = needs_of(task.spec());
  AskPlan ask{task.id, task.submission, {}, {}};
  for (const Worker* worker : free) {
    ask.places.push_back({worker->id, worker->spec, worker->choose(needs)});
  }
  return ask;
}

/// Seconds from one micro-batch to the next; a plan that does not say it is never worth a move.
double period_of(const std::string& plan) {
  try {
    return Json::parse(plan, "plan").at("period_s").as_number();
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

/// What is known of workers may have changed since the running plan was made, so its period then is
/// the second choice.
bool is_worth_a_move(const PlanMade& made, const std::string& running) {
  if (!made.problem.empty()) return false;
  const double now = made.running_period_s > 0 ? made.running_period_s : period_of(running);
  return period_of(made.plan) < kWorthAMove * now;
}

bool is_elastic(const TaskSpec& spec) { return spec.pipeline && spec.pipeline->elastic; }

}  // namespace

PlanDesk::Turn PlanDesk::take_turn(Decisions& step, const TaskRecord& task, std::size_t most) {
  held_.clear();
  Entry& entry = entries_[task.id];
  if (entry.answer && entry.answer->hopeless) {
    step.end_task(task.id, TaskOutcome::kFailed,
                  EndResult{EndKind::kRefused, 0, 0, entry.answer->problem});
    entries_.erase(task.id);
    return Turn::kEnded;
  }
  // The user may have got other devices since it was asked.
  const bool affordable = entry.answer && entry.answer->stages.size() <= most;
  if (affordable && start(step, task, *entry.answer)) {
    entries_.erase(task.id);
    return Turn::kStarted;
  }
  const auto free = free_workers(step, task.spec(), most);
  std::vector<WorkerId> ids;
  for (const Worker* worker : free) ids.push_back(worker->id);
  const bool asked = !entry.asked.empty();
  if (asked && !entry.answer) {
    // One of them may have been forgotten meanwhile.
    std::ranges::copy_if(entry.asked, std::back_inserter(held_),
                         [&](WorkerId id) { return step.tables().pool.find(id) != nullptr; });
    return Turn::kPlanning;
  }
  if (free.size() < step.gang_of(task)) return Turn::kBlocked;
  if (asked && !entry.answer->problem.empty() && entry.asked == ids) return Turn::kNoPlan;
  step.effect(question(task, free));
  entry = {ids, std::nullopt};
  held_ = std::move(ids);
  return Turn::kPlanning;
}

bool PlanDesk::start(Decisions& step, const TaskRecord& task, const PlanMade& plan) {
  const Needs needs = needs_of(task.spec());
  std::vector<Member> members;
  std::set<WorkerId> seen;
  for (const WorkerId id : plan.stages) {
    const Worker* worker = step.tables().pool.find(id);
    if (worker == nullptr || !worker->open || !worker->fits(needs)) return false;
    if (worker->spec.no_stages) return false;  // Since the plan was made.
    if (!seen.insert(id).second) return false;
    members.push_back({id, worker->choose(needs), false, std::nullopt, 0});
  }
  if (members.empty()) return false;
  step.start(task, std::move(members), plan);
  if (is_elastic(task.spec()) && !plan.measures) elastic_[task.id] = {};
  return true;
}

void PlanDesk::find_elastic(const StateTables& tables) {
  if (std::exchange(elastic_known_, true)) return;
  for (const auto& [worker, attempts] : tables.attempts) {
    for (const AttemptId id : attempts) {
      if (is_elastic(tables.known_task(id.task).spec())) elastic_.try_emplace(id.task);
    }
  }
}

void PlanDesk::look_for_better(Decisions& step) {
  const StateTables& tables = step.tables();
  find_elastic(tables);
  std::erase_if(elastic_, [&](const auto& entry) {
    const TaskRecord* task = tables.tasks.find(entry.first);
    return task == nullptr || !std::holds_alternative<Active>(task->state);
  });
  for (const auto& [id, entry] : elastic_) weigh(step, tables.known_task(id));
}

void PlanDesk::weigh(Decisions& step, const TaskRecord& task) {
  const Active& active = running(task);
  if (active.stopping || active.measures || task.preemptions >= step.options().max_preemptions) {
    return;
  }
  const auto known = elastic_.find(task.id);
  HARMONICS_CHECK(known != elastic_.end(), "pipeline {} is weighed and is not elastic",
                  task.id.value);
  Entry& entry = known->second;
  if (!entry.asked.empty() && !entry.answer) return;
  if (entry.answer && is_worth_a_move(*entry.answer, active.plan)) {
    step.note("pipeline {} moves to a better plan", task.id.value);
    step.stop(task, StopReason::kPreempted);
    return;
  }
  AskPlan ask{task.id, task.submission, {}, active.plan};
  std::vector<WorkerId> ids;
  for (const Member& member : active.members) {
    const auto place = step.tables().workers.find(member.worker);
    if (member.ended || place == step.tables().workers.end()) return;
    ask.places.push_back({member.worker, place->second.spec, member.devices});
    ids.push_back(member.worker);
  }
  const Needs needs = needs_of(task.spec());
  for (const Worker* worker : free_workers(step, task.spec(), kMaxPipelineStages)) {
    if (std::ranges::find(ids, worker->id) != ids.end()) continue;
    ask.places.push_back({worker->id, worker->spec, worker->choose(needs)});
    ids.push_back(worker->id);
  }
  if (ids.size() == active.members.size() || ids == entry.asked) return;
  entry = {ids, std::nullopt};
  step.effect(std::move(ask));
}

void PlanDesk::take(const PlanMade& answer) {
  if (const auto running = elastic_.find(answer.task); running != elastic_.end()) {
    running->second.answer = answer;
    return;
  }
  const auto entry = entries_.find(answer.task);
  if (entry == entries_.end()) return;
  entry->second.answer = answer;
  // Neither is possible with a planner in order; the next turn would take it for one of no workers.
  if (answer.stages.empty() && answer.problem.empty()) {
    entry->second.answer->problem = "the planner gave an empty plan";
  }
}

void PlanDesk::tidy(const StateTables& tables) {
  std::erase_if(entries_, [&](const auto& entry) {
    const TaskRecord* task = tables.tasks.find(entry.first);
    return task == nullptr || !std::holds_alternative<Pending>(task->state);
  });
}

bool PlanDesk::planning(TaskId task) const {
  const auto entry = entries_.find(task);
  return entry != entries_.end() && !entry->second.asked.empty() && !entry->second.answer;
}

const std::string* PlanDesk::problem(TaskId task) const {
  const auto entry = entries_.find(task);
  if (entry == entries_.end() || !entry->second.answer) return nullptr;
  return entry->second.answer->problem.empty() ? nullptr : &entry->second.answer->problem;
}

}  // namespace harmonics::inline in_cluster
