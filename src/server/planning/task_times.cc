#include "task_times.h"

#include <algorithm>
#include <chrono>

namespace harmonics::inline in_server {

void Histogram::add(Nanoseconds duration) {
  const Nanoseconds length = std::max(duration, Nanoseconds(0));
  const double seconds = in_seconds(length);
  const auto bucket = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  sum_ns_ += length.count();
}

std::uint64_t Histogram::count_up_to(std::size_t bucket) const {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= bucket; ++i) count += counts_[i];
  return count;
}

double Histogram::sum_s() const { return static_cast<double>(sum_ns_.load()) * 1e-9; }

void TaskTimes::begin(const ClusterState& state) {
  for (const WorkerRecord* worker : state.workers()) {
    for (const AttemptId& id : state.attempts_on(worker->id)) {
      const TaskRecord* task = state.find_task(id.task);
      if (const Active* active = std::get_if<Active>(&task->state)) {
        started_[id.task] = active->since;
      }
    }
  }
}

void TaskTimes::learn(const ClusterState& state, const Fact& fact, Time now) {
  if (const auto* started = std::get_if<AttemptStarted>(&fact)) {
    const TaskRecord* task = state.find_task(started->id.task);
    if (task != nullptr && started->id.attempt.value == 1) {
      waiting_.add(started->at - task->submission->at);
    }
    started_[started->id.task] = started->at;
  } else if (const auto* again = std::get_if<AttemptRequeued>(&fact)) {
    ended(again->id.task, now);
  } else if (const auto* over = std::get_if<TaskEnded>(&fact)) {
    ended(over->task, over->at);
  }
}

void TaskTimes::ended(TaskId task, Time now) {
  const auto node = started_.extract(task);
  if (!node.empty()) running_.add(now - node.mapped());
}

}  // namespace harmonics::inline in_server
