#include "task_queue.h"

#include <harmonics/base/error.h>

namespace harmonics {

LaneKey lane_of(const Submission& submission) {
  const TaskSpec& spec = submission.spec;
  return {spec.priority, submission.user, needs_of(spec), spec.gang, spec.timeout_s};
}

void TaskQueue::add(const Submission& submission, TaskId first, TaskId last) {
  lanes_[lane_of(submission)].add(first, last);
}

void TaskQueue::remove(const Submission& submission, TaskId id) {
  const auto lane = lanes_.find(lane_of(submission));
  if (lane == lanes_.end()) fail(ErrorCode::kInternal, "task {} is not queued", id.value);
  lane->second.remove(id);
  if (lane->second.empty()) lanes_.erase(lane);
}

std::uint64_t TaskQueue::count_before(const TaskRecord& task) const {
  std::uint64_t count = 0;
  for (const auto& [key, ids] : lanes_) {
    if (key.priority > task.spec().priority) count += ids.size();
    if (key.priority == task.spec().priority) count += ids.count_below(task.id);
  }
  return count;
}

}  // namespace harmonics
