// One run as plain bookkeeping: which rows are where. No thread, no clock, no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <vector>

#include <harmonics/dispatch/scheduler.h>

#include "row_pool.h"

namespace harmonics::inline in_dispatch {

/// The most failures that a run keeps for its error; further ones are counted.
inline constexpr std::size_t kMaxKeptFailures = 16;

/// Rows left, queues and loads of the devices, failures. One thread at a time (the dispatcher's
/// lock).
class RunState {
 public:
  /// `row_caps`: the most rows that each device may hold. The scheduler stays the caller's.
  RunState(WorkScheduler& scheduler, std::vector<std::size_t> row_caps,
           const std::vector<int>& lanes);

  void begin(RowRange rows, Nanoseconds now);

  /// Assigns until the scheduler has no more to say. `assigned` gets the device of each sub-batch
  /// that came into a queue.
  void refill(Nanoseconds now, std::vector<std::size_t>& assigned);

  [[nodiscard]] bool has_queued(std::size_t device) const { return !queues_[device].empty(); }
  /// The sub-batch that has waited longest at the device; it counts as running from now on.
  [[nodiscard]] Claim start(std::size_t device, Nanoseconds now);
  /// Where sub-batches are repeated: the input of one at work is made; its result is about to be
  /// kept (false: it must not be, another device was first).
  void loaded(std::size_t device, const Claim& claim);
  [[nodiscard]] bool commit(std::size_t device, const Claim& claim);
  /// `kept`: its result counts.
  void finish(std::size_t device, const Claim& claim, Nanoseconds ended, bool kept = true);
  void fail(std::size_t device, const Claim& claim, const std::exception_ptr& error,
            Nanoseconds now);

  /// Ends scheduling; what runs may finish.
  void stop(const std::exception_ptr& why);
  [[nodiscard]] bool stopping() const { return !failures_.empty(); }
  /// Nothing runs and nothing will, but for sub-batches whose rows are done elsewhere.
  [[nodiscard]] bool over() const { return queued_ == 0 && running_ == late(); }
  /// Tells the scheduler that the run is over.
  void end(Nanoseconds now);
  /// Throws what went wrong: the one exception as it was, or an AggregateError of several.
  void rethrow() const;

  [[nodiscard]] std::size_t done_rows() const { return done_rows_; }
  [[nodiscard]] std::size_t total_rows() const { return total_rows_; }
  [[nodiscard]] const std::vector<DeviceLoad>& loads() const { return loads_; }

 private:
  struct Twin {
    /// Copies at work or waiting.
    int out = 2;
    bool committed = false;
    bool done = false;
  };

  [[nodiscard]] RunView view(Nanoseconds now) const;
  void assign(const WorkAssignment& assignment, Nanoseconds now);
  [[nodiscard]] Claim steal(const WorkAssignment& assignment);
  void enqueue(std::size_t device, const Claim& claim);
  void stop_running(std::size_t device, const Claim& claim);
  [[nodiscard]] Claim repeat(const WorkAssignment& assignment);
  [[nodiscard]] Claim* at_work(std::size_t device, const Claim& claim);
  [[nodiscard]] std::size_t late() const;
  bool drop_twin(const Claim& claim, bool done);
  void drop_queued(std::uint64_t number);
  void note_oldest(std::size_t device);
  [[nodiscard]] std::size_t stealable_rows(std::size_t device) const;
  void fail_late(std::size_t device, const FailedWork& work);
  void put_back(const Claim& claim, Recovery recovery);
  void drop_queue(std::size_t device, bool back_to_pool);

  WorkScheduler& scheduler_;
  const bool repeats_;
  std::vector<std::size_t> row_caps_;
  std::vector<DeviceLoad> loads_;
  std::vector<std::deque<Claim>> queues_;
  /// What runs at each device, oldest first.
  std::vector<std::vector<Claim>> at_work_;
  /// Sub-batches that two devices compute, by number.
  std::map<std::uint64_t, Twin> twins_;
  std::uint64_t numbers_ = 0;
  bool ended_ = true;
  RowPool pool_;
  std::size_t total_rows_ = 0;
  std::size_t done_rows_ = 0;
  std::size_t running_ = 0;
  std::size_t queued_ = 0;
  std::vector<std::exception_ptr> failures_;
  std::size_t uncounted_failures_ = 0;
};

}  // namespace harmonics::inline in_dispatch
