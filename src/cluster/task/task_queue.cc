#include "task_queue.h"

#include <bit>

#include <harmonics/base/check.h>

namespace harmonics::inline in_cluster {

std::uint32_t lane_limit(std::uint32_t timeout_s) {
  const int shift = std::bit_width(timeout_s) - 3;
  if (shift <= 0) return timeout_s;
  const std::uint64_t step = std::uint64_t{1} << shift;
  return static_cast<std::uint32_t>((timeout_s + step - 1) / step * step);
}

std::uint32_t shortest_of_lane(std::uint32_t limit_s) {
  // Limits of five and more are told apart by quarters of the power of two below.
  return limit_s - limit_s / 5;
}

LaneKey lane_of(const Submission& submission, std::uint32_t level) {
  const TaskSpec& spec = submission.spec;
  return {spec.priority,   level,
          submission.user, needs_of(spec),
          spec.gang,       lane_limit(spec.timeout_s),
          spec.variants,   spec.pipeline ? submission.first : TaskId{}};
}

CrowdKey crowd_of(const LaneKey& lane) { return {-lane.priority, lane.user}; }

const TaskQueue::Fronts* TaskQueue::find_group(const LaneKey& lane) const {
  const auto crowd = crowds_.find(crowd_of(lane));
  if (crowd == crowds_.end()) return nullptr;
  const auto group = crowd->second.find(lane.level);
  return group == crowd->second.end() ? nullptr : &group->second;
}

void TaskQueue::leave_group(const LaneKey& lane, TaskId front) {
  const auto crowd = crowds_.find(crowd_of(lane));
  HARMONICS_CHECK(crowd != crowds_.end(), "user '{}' leaves a queue where they were not",
                  lane.user);
  const auto group = crowd->second.find(lane.level);
  HARMONICS_CHECK(group != crowd->second.end(), "user '{}' leaves a level where they were not",
                  lane.user);
  const std::size_t left = group->second.erase(front);
  HARMONICS_CHECK(left == 1, "task {} was not the front of its lane", front.value);
  if (!group->second.empty()) return;
  crowd->second.erase(group);
  if (crowd->second.empty()) crowds_.erase(crowd);
}

void TaskQueue::join_group(const LaneKey& lane, TaskId front) {
  const bool joined = crowds_[crowd_of(lane)][lane.level].emplace(front, &lane).second;
  HARMONICS_CHECK(joined, "task {} is the front of two lanes", front.value);
}

void TaskQueue::count_kind(const LaneKey& lane) {
  QueuedKind& kind = kinds_[{lane.needs, lane.gang}];
  ++kind.limits[lane.limit_s];
  if (!lane.variants.empty() || lane.pipeline != TaskId{}) ++kind.special;
}

void TaskQueue::forget_kind(const LaneKey& lane) {
  const auto kind = kinds_.find({lane.needs, lane.gang});
  HARMONICS_CHECK(kind != kinds_.end(), "a lane of '{}' was not counted", lane.user);
  if (!lane.variants.empty() || lane.pipeline != TaskId{}) --kind->second.special;
  const auto limit = kind->second.limits.find(lane.limit_s);
  HARMONICS_CHECK(limit != kind->second.limits.end(), "a limit of '{}' was not counted", lane.user);
  if (--limit->second == 0) kind->second.limits.erase(limit);
  if (kind->second.limits.empty()) kinds_.erase(kind);
}

void TaskQueue::add(const LaneKey& key, TaskId first, TaskId last) {
  const auto [lane, added] = lanes_.try_emplace(key);
  if (added) count_kind(key);
  const TaskId before = added ? TaskId{} : lane->second.front();
  lane->second.add(first, last);
  const TaskId front = lane->second.front();
  if (!added && front == before) return;
  join_group(lane->first, front);
  if (!added) leave_group(lane->first, before);
}

void TaskQueue::remove(const LaneKey& key, TaskId id) {
  const auto lane = lanes_.find(key);
  HARMONICS_CHECK(lane != lanes_.end(), "task {} is not queued", id.value);
  const TaskId before = lane->second.front();
  lane->second.remove(id);
  if (!lane->second.empty() && lane->second.front() == before) return;
  // It joins before it leaves, so that a group that goes on stays where it is.
  const bool last = lane->second.empty();
  if (!last) join_group(lane->first, lane->second.front());
  leave_group(lane->first, before);
  if (!last) return;
  forget_kind(lane->first);
  lanes_.erase(lane);
}

std::uint64_t TaskQueue::count_before(const TaskRecord& task) const {
  std::uint64_t count = 0;
  for (const auto& [key, ids] : lanes_) {
    if (key.priority > task.spec().priority) count += ids.size();
    if (key.priority == task.spec().priority) count += ids.count_below(task.id);
  }
  return count;
}

}  // namespace harmonics::inline in_cluster
