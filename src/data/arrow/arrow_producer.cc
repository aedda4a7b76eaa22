#include "arrow_producer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_data {

ArrowProducer::ArrowProducer(const ByteSourcePtr& source, OpenGroups open,
                             const ColumnWishes& wishes, std::size_t kept_bytes)
    : memory_(2 * kMostGroupBytes),
      groups_(open(source, &memory_)),
      layout_(*groups_, wishes),
      kept_bytes_(kept_bytes) {
  starts_.push_back(0);
  for (const std::int64_t rows : groups_->rows()) starts_.push_back(starts_.back() + rows);
}

std::size_t ArrowProducer::group_of(std::int64_t row) const {
  // Of groups without rows, which begin where the next one does, the last.
  return static_cast<std::size_t>(std::ranges::upper_bound(starts_, row) - starts_.begin()) - 1;
}

void ArrowProducer::make_room() {
  std::size_t bytes = 0;
  for (auto each = kept_.begin(); each != kept_.end();) {
    const std::size_t more = (*each)->samples.size();
    if (each != kept_.begin() && bytes + more > kept_bytes_) {
      each = kept_.erase(each);
    } else {
      bytes += more;
      ++each;
    }
  }
  most_kept_bytes_ = std::max<std::size_t>(most_kept_bytes_, bytes);
}

ArrowProducer::DecodedGroupPtr ArrowProducer::decoded(std::size_t group) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find(kept_, group, [](const DecodedGroupPtr& each) { return each->number; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  const std::int64_t rows = groups_->rows()[group];
  const auto sample = static_cast<std::int64_t>(byte_count(layout_.spec()));
  if (rows > kMostGroupBytes / sample) {
    fail(ErrorCode::kResourceExhausted,
         "'{}': row group {} has {} rows of {} bytes, more than {} bytes: write smaller row groups",
         groups_->path(), group, rows, sample, kMostGroupBytes);
  }
  const ArrowColumns columns = groups_->read(group, layout_.fields());
  auto made = std::make_shared<const DecodedGroup>(
      DecodedGroup{group, layout_.samples(columns, rows, starts_[group])});
  kept_.push_front(made);
  make_room();
  return made;
}

void ArrowProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  const std::size_t sample = byte_count(layout_.spec());
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return group_of(rows[i]); });
  DecodedGroupPtr group;
  for (const std::size_t i : order) {
    const std::size_t wanted = group_of(rows[i]);
    if (group == nullptr || group->number != wanted) group = decoded(wanted);
    const auto within = static_cast<std::size_t>(rows[i] - starts_[wanted]);
    std::memcpy(out.data() + i * sample, group->samples.data() + within * sample, sample);
  }
}

}  // namespace harmonics::inline in_data
