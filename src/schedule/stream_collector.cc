#include "stream_collector.h"

#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {

void StreamCollector::give(std::size_t part, StreamedBatch batch, const std::stop_token& stop) {
  if (!terms_.givers.contains(part)) return;
  std::unique_lock lock(mutex_);
  const auto has_room = [&] {
    return batch.number < next_ + static_cast<std::int64_t>(terms_.room);
  };
  if (!moved_.wait_for(lock, stop, terms_.patience, has_room)) {
    if (stop.stop_requested()) return;
    fail(ErrorCode::kDeadlineExceeded,
         "batch {} has waited {} s for batch {} of another part: that part hangs, or takes longer "
         "than the deadline",
         batch.number, in_seconds(terms_.patience), next_);
  }
  Pieces& pieces = waiting_[batch.number];
  pieces.batch.number = batch.number;
  pieces.batch.rows = batch.rows;
  pieces.taps[part] = batch.taps;
  pieces.batch.outputs.merge(batch.outputs);
  while (!waiting_.empty() && waiting_.begin()->first == next_ &&
         waiting_.begin()->second.taps.size() == terms_.givers.size()) {
    Pieces whole = std::move(waiting_.extract(waiting_.begin()).mapped());
    for (const auto& [giver, taps] : whole.taps) whole.batch.taps += taps;
    receiver_(std::move(whole.batch));
    next_ = terms_.own_batch(next_ + 1);
    moved_.notify_all();
  }
}

}  // namespace harmonics::inline in_schedule
