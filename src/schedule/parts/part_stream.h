// PartStream: takes the batches of a stream through one part (private to schedule).
//
// A part that is done with a batch says so over the boundaries that it came by. Who sends counts
// what was not answered yet, so that no part holds more batches than its room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include <harmonics/schedule/batch_runner.h>

#include "core_clock.h"
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
    /// By boundary that leaves: batches that may be sent and not answered.
    std::map<std::string, std::size_t, std::less<>> rooms;
  };
  /// Driver and work must outlive it.
  PartStream(StageDriver& driver, const StreamWork& work, Place place);

  /// Until the data, or that of the parts before, ends, or `stop` is asked for. When it returns
  /// without an Error or `stop`, nothing is left on the boundaries.
  [[nodiscard]] PartFlow run(const std::stop_token& stop);
  /// The end came early because somebody wished so.
  [[nodiscard]] bool interrupted() const { return interrupted_; }

 private:
  /// What begins a batch: its own data and its rows; nothing at the end.
  struct Due {
    NamedTensors data;
    std::int64_t rows = 0;
  };
  [[nodiscard]] std::optional<Due> take();
  [[nodiscard]] std::optional<std::int64_t> take_boundaries();
  void end_other_boundaries(const std::map<std::string, bool, std::less<>>& ended);
  [[nodiscard]] Message receive(const std::string& name, const BoundaryCarrier& end);
  void compute(Due due, const std::stop_token& stop);
  void await_room(const std::string& name, const BoundaryCarrier& end, std::size_t room);
  void give_credit();
  void end_stream();
  void note_done();
  [[nodiscard]] std::uint64_t step() const {
    return place_.first_step + static_cast<std::uint64_t>(flow_.batches);
  }
  [[nodiscard]] std::int64_t number() const { return work_.first_batch + flow_.batches; }

  StageDriver& driver_;
  const StreamWork& work_;
  const Place place_;
  const SteadyClock clock_;
  const CoreClock cores_;
  std::map<std::string, std::size_t, std::less<>> unanswered_;  // by boundary that leaves
  PartFlow flow_;
  Nanoseconds first_done_{};
  bool interrupted_ = false;
};

}  // namespace harmonics::inline in_schedule
