// PartStream: takes the batches of a stream through one part (private to schedule).
//
// A part that is done with a batch says so over the boundaries that it came by. Who sends counts
// what was not answered yet, so that no part holds more batches than its room. Where a part has
// copies, each boundary has a channel for each of them, with a room of its own; at the end of the
// stream every channel is told, and answers, so that all copies know how many batches there were.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include <harmonics/base/core_clock.h>
#include <harmonics/schedule/batch_runner.h>

#include "remote/wire.h"
#include "stage_driver.h"

namespace harmonics::inline in_schedule {

/// One thread. Every wait ends after the driver's patience, with an Error that names the boundary.
class PartStream {
 public:
  struct Place {
    /// Number in the row.
    std::size_t part = 0;
    /// The step of the first batch in messages.
    std::uint64_t first_step = 0;
    /// By boundary that leaves: batches that may be sent over a channel and not answered.
    std::map<std::string, std::size_t, std::less<>> rooms;
    /// How the copies of this part take turns, and which this one is.
    CopyTurns turns = {};
    std::size_t copy = 0;
  };
  /// Driver and work must outlive it.
  PartStream(StageDriver& driver, const StreamWork& work, Place place);

  /// Until the data, or that of the parts before, ends, or `stop` is asked for. When it returns
  /// without an Error or `stop`, nothing is left on the boundaries.
  [[nodiscard]] PartFlow run(const std::stop_token& stop);
  /// The end came early because somebody wished so.
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  /// The step that follows on this stream, the same in all parts and copies.
  [[nodiscard]] std::uint64_t next_step() const { return std::min(step(), ended_at_); }

 private:
  /// What begins a batch: its own data and its rows; nothing at the end.
  struct Due {
    NamedTensors data;
    std::int64_t rows = 0;
  };
  [[nodiscard]] std::optional<Due> take();
  [[nodiscard]] std::optional<std::int64_t> take_boundaries();
  void end_entering(const std::map<std::string, bool, std::less<>>& ended);
  void end_channel(const std::string& name, Transport& channel);
  void note_end(const Message& message);
  [[nodiscard]] Message receive(const std::string& name, Transport& channel);
  void compute(Due due, const std::stop_token& stop);
  void await_room(const std::string& name, std::size_t copy, std::size_t room);
  [[nodiscard]] std::uint64_t receive_credit(const std::string& name, Transport& channel);
  void give_credit();
  void end_stream();
  void note_done();
  [[nodiscard]] std::uint64_t step() const {
    return place_.first_step + static_cast<std::uint64_t>(number_ - work_.first_batch);
  }
  /// The first batch from that one on that this copy takes.
  [[nodiscard]] std::int64_t own_batch(std::int64_t from) const;
  void begin_batch(std::int64_t number);

  StageDriver& driver_;
  const StreamWork& work_;
  const Place place_;
  const SteadyClock clock_;
  const CoreClock cores_;
  // By boundary that leaves and copy that takes.
  std::map<std::string, std::vector<std::size_t>, std::less<>> unanswered_;
  std::int64_t number_ = 0;          // of the batch that is due here
  std::int64_t next_read_ = 0;       // of the batch that the data here gives next
  std::uint64_t ended_at_ = kNoEnd;  // as the parts before and after this one say
  PartFlow flow_;
  Nanoseconds first_done_{};
  bool interrupted_ = false;
};

}  // namespace harmonics::inline in_schedule
