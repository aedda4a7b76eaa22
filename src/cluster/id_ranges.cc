#include "id_ranges.h"

#include <algorithm>
#include <iterator>

#include <harmonics/base/check.h>

namespace harmonics::inline in_cluster {

void IdRanges::add(TaskId first, TaskId last) {
  std::uint64_t low = first.value;
  std::uint64_t high = last.value;
  HARMONICS_CHECK(low <= high, "tasks {} to {} are no range", low, high);
  size_ += high - low + 1;
  auto next = ranges_.upper_bound(low);
  HARMONICS_CHECK(next == ranges_.end() || next->first > high, "task {} is queued twice",
                  next->first);
  if (next != ranges_.end() && next->first == high + 1) {
    high = next->second;
    next = ranges_.erase(next);
  }
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    HARMONICS_CHECK(before->second < low, "task {} is queued twice", low);
    if (before->second + 1 == low) {
      before->second = high;
      return;
    }
  }
  ranges_.emplace_hint(next, low, high);
}

void IdRanges::remove(TaskId id) {
  auto range = ranges_.upper_bound(id.value);
  HARMONICS_CHECK(range != ranges_.begin() && (--range)->second >= id.value,
                  "task {} is not queued", id.value);
  --size_;
  const auto [first, last] = *range;
  // Tasks mostly leave at the front: move the range's start in place of making a new node.
  if (first == id.value) {
    auto node = ranges_.extract(range);
    if (first == last) return;
    node.key() = first + 1;
    ranges_.insert(std::move(node));
    return;
  }
  range->second = id.value - 1;
  if (id.value < last) ranges_.emplace(id.value + 1, last);
}

std::uint64_t IdRanges::count_below(TaskId id) const {
  std::uint64_t count = 0;
  for (const auto& [first, last] : ranges_) {
    if (first >= id.value) break;
    count += std::min(last, id.value - 1) - first + 1;
  }
  return count;
}

}  // namespace harmonics::inline in_cluster
