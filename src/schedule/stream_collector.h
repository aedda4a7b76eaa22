// StreamCollector: puts together what the parts of a row make of each batch (private to schedule).
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include <harmonics/schedule/batch_runner.h>

namespace harmonics::inline in_schedule {

/// Gives whole batches on, in order, one at a time, on the thread of the part that completed them.
/// A part that is `room` batches ahead of the slowest waits. What the receiver throws, the part
/// throws.
class StreamCollector final : public StreamSink {
 public:
  /// What is waited for, and how.
  struct Terms {
    /// Parts that give something; the others' calls do nothing.
    std::set<std::size_t> givers;
    std::int64_t first_batch = 0;
    std::size_t room = 1;
    Nanoseconds patience{};
    /// The first batch from a number on that comes here at all.
    std::function<std::int64_t(std::int64_t)> own_batch;
  };
  StreamCollector(Terms terms, std::function<void(StreamedBatch)> receiver)
      : terms_(std::move(terms)),
        receiver_(std::move(receiver)),
        next_(terms_.own_batch(terms_.first_batch)) {}

  void give(std::size_t part, StreamedBatch batch, const std::stop_token& stop) override;

 private:
  struct Pieces {
    StreamedBatch batch;
    std::map<std::size_t, TapReport> taps;  // by part: added up in the order of the parts
  };

  const Terms terms_;
  const std::function<void(StreamedBatch)> receiver_;
  std::mutex mutex_;
  std::condition_variable_any moved_;
  std::int64_t next_;
  std::map<std::int64_t, Pieces> waiting_;  // at most `room`
};

}  // namespace harmonics::inline in_schedule
