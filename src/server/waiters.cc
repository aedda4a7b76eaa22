#include "waiters.h"

#include <vector>

#include <harmonics/base/format.h>

#include "state_views.h"

namespace harmonics::inline in_server {

void Waiters::add(const ClusterState& state, const WaitQuery& query, Time now, Reply reply) {
  const TaskRecord* task = state.find_task(query.task);
  if (task == nullptr || !may_see(query.viewer, *task)) {
    reply(Refusal{ErrorCode::kNotFound, format("there is no task {}", query.task.value)});
    return;
  }
  const WaitResult now_ends = view_ends(state, *task);
  if (now_ends.ended || query.timeout.count() <= 0) {
    reply(now_ends);
    return;
  }
  if (all_.size() >= kMaxWaiters) {
    reply(Refusal{
        ErrorCode::kResourceExhausted,
        format("{} clients wait for tasks, which is the limit: try again later", kMaxWaiters)});
    return;
  }
  all_.push_back({task->id, task->submission->first, now_ends.unfinished, std::move(reply), {}});
  const Place place = std::prev(all_.end());
  place->due = by_time_.emplace(now + query.timeout, place);
  by_submission_.emplace(place->first.value, place);
}

void Waiters::on_end(const ClusterState& state, TaskId id) {
  if (all_.empty()) return;
  const TaskRecord* task = state.find_task(id);
  if (task == nullptr) return;
  const auto range = by_submission_.equal_range(task->submission->first.value);
  std::vector<Place> done;
  for (auto entry = range.first; entry != range.second; ++entry) {
    Waiter& waiter = *entry->second;
    const bool whole_array = waiter.task == waiter.first && task->spec().array > 0;
    if (!whole_array && waiter.task != id) continue;
    if (--waiter.left == 0) done.push_back(entry->second);
  }
  for (const Place waiter : done) answer(state, waiter);
}

void Waiters::answer(const ClusterState& state, Place waiter) {
  const TaskRecord* task = state.find_task(waiter->task);
  const Reply reply = std::move(waiter->reply);
  by_time_.erase(waiter->due);
  const auto range = by_submission_.equal_range(waiter->first.value);
  for (auto entry = range.first; entry != range.second; ++entry) {
    if (entry->second == waiter) {
      by_submission_.erase(entry);
      break;
    }
  }
  const TaskId id = waiter->task;
  all_.erase(waiter);
  if (task == nullptr) {
    reply(Refusal{ErrorCode::kNotFound, format("task {} has been forgotten", id.value)});
  } else {
    reply(view_ends(state, *task));
  }
}

void Waiters::expire(const ClusterState& state, Time now) {
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    answer(state, by_time_.begin()->second);
  }
}

Time Waiters::deadline() const { return by_time_.empty() ? kNever : by_time_.begin()->first; }

void Waiters::release(const ClusterState& state) {
  while (!all_.empty()) answer(state, all_.begin());
}

}  // namespace harmonics::inline in_server
