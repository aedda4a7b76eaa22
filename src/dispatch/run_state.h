// One run as plain bookkeeping: which rows are where. No thread, no clock, no lock.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <vector>

#include <harmonics/dispatch/scheduler.h>

#include "row_pool.h"

namespace harmonics {

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
  void finish(std::size_t device, const Claim& claim, Nanoseconds ended);
  void fail(std::size_t device, const Claim& claim, const std::exception_ptr& error,
            Nanoseconds now);

  /// Ends scheduling; what runs may finish.
  void stop(const std::exception_ptr& why);
  [[nodiscard]] bool stopping() const { return !failures_.empty(); }
  /// Nothing runs and nothing will.
  [[nodiscard]] bool over() const { return running_ == 0 && queued_ == 0; }
  /// Tells the scheduler that the run is over.
  void end(Nanoseconds now);
  /// Throws what went wrong: the one exception as it was, or an AggregateError of several.
  void rethrow() const;

  [[nodiscard]] std::size_t done_rows() const { return done_rows_; }
  [[nodiscard]] std::size_t total_rows() const { return total_rows_; }
  [[nodiscard]] const std::vector<DeviceLoad>& loads() const { return loads_; }

 private:
  [[nodiscard]] RunView view(Nanoseconds now) const;
  void assign(const WorkAssignment& assignment, Nanoseconds now);
  [[nodiscard]] Claim steal(const WorkAssignment& assignment);
  void enqueue(std::size_t device, const Claim& claim);
  void stop_running(std::size_t device, const Claim& claim);
  void put_back(const Claim& claim, Recovery recovery);
  void drop_queue(std::size_t device, bool back_to_pool);

  WorkScheduler& scheduler_;
  std::vector<std::size_t> row_caps_;
  std::vector<DeviceLoad> loads_;
  std::vector<std::deque<Claim>> queues_;
  /// Start times of what runs at each device, oldest first.
  std::vector<std::deque<Nanoseconds>> starts_;
  RowPool pool_;
  std::size_t total_rows_ = 0;
  std::size_t done_rows_ = 0;
  std::size_t running_ = 0;
  std::size_t queued_ = 0;
  std::vector<std::exception_ptr> failures_;
  std::size_t uncounted_failures_ = 0;
};

}  // namespace harmonics
