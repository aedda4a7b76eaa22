// A set of task ids that costs by its gaps, not by its members: a waiting array is one range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include <harmonics/cluster/ids.h>

namespace harmonics::inline in_cluster {

class IdRanges {
 public:
  /// Adds first to last; none of them may be there already.
  void add(TaskId first, TaskId last);
  void add(TaskId id) { add(id, id); }
  /// Must be there.
  void remove(TaskId id);

  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] TaskId front() const { return TaskId{ranges_.begin()->first}; }
  /// How many are smaller than `id`. Costs one step per range.
  [[nodiscard]] std::uint64_t count_below(TaskId id) const;

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  ///< First to last; never touching each other.
  std::uint64_t size_ = 0;
};

}  // namespace harmonics::inline in_cluster
