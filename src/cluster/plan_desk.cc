#include "plan_desk.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace harmonics {
namespace {

/// Workers that have room now, in natural order of names.
std::vector<const Worker*> free_workers(const Decisions& step, const Needs& needs,
                                        std::size_t most) {
  std::vector<const Worker*> free;
  for (const Worker* worker : step.tables().pool.all()) {
    if (free.size() == most) break;
    if (worker->open && worker->fits(needs)) free.push_back(worker);
  }
  return free;
}

AskPlan question(const TaskRecord& task, const std::vector<const Worker*>& free) {
  const Needs needs = needs_of(task.spec());
  AskPlan ask{task.id, task.submission, {}};
  for (const Worker* worker : free) {
    ask.places.push_back({worker->id, worker->spec, worker->choose(needs)});
  }
  return ask;
}

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
  const auto free = free_workers(step, needs_of(task.spec()), most);
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
    if (!seen.insert(id).second) return false;
    members.push_back({id, worker->choose(needs), false, std::nullopt});
  }
  if (members.empty()) return false;
  step.start(task, std::move(members), plan);
  return true;
}

void PlanDesk::take(const PlanMade& answer) {
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

const std::string* PlanDesk::problem(TaskId task) const {
  const auto entry = entries_.find(task);
  if (entry == entries_.end() || !entry->second.answer) return nullptr;
  return entry->second.answer->problem.empty() ? nullptr : &entry->second.answer->problem;
}

}  // namespace harmonics
