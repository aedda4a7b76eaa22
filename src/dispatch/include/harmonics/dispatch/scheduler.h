// The interface of schedulers: who gets how many rows next. Decisions alone, no threads.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/dispatch/device.h>
#include <harmonics/dispatch/failure.h>

namespace harmonics::inline in_dispatch {

/// What one device has to do at the moment.
struct DeviceLoad {
  /// Rows that its lanes compute now, and rows assigned that no lane has begun.
  std::size_t running_rows = 0;
  std::size_t queued_rows = 0;
  /// Sub-batches of each.
  std::size_t running = 0;
  std::size_t queued = 0;
  /// Rows of the sub-batch at the end of its queue, the one that could be stolen.
  std::size_t last_queued_rows = 0;
  /// When the sub-batch that has run longest was begun.
  Nanoseconds oldest_start{0};
  /// Rows of the oldest sub-batch at work that no other device computes, too; 0: there is none.
  std::size_t repeatable_rows = 0;
  /// How many more rows fit under its memory cap.
  std::size_t room_rows = std::numeric_limits<std::size_t>::max();
  /// Lanes of the device.
  int lanes = 1;

  [[nodiscard]] std::size_t rows() const { return running_rows + queued_rows; }
};

/// A run as a scheduler sees it.
struct RunView {
  Nanoseconds now{0};
  std::size_t total_rows = 0;
  /// Rows that are assigned to nobody.
  std::size_t left_rows = 0;
  std::span<const DeviceLoad> devices;
};

/// `rows` of those left go to `device`. With `from`, a sub-batch that waits at that device goes
/// instead: the last one in its queue, of which no more than `rows` move. With `repeat` the oldest
/// sub-batch at work at `from` that is not repeated yet is computed by `device` as well, whole; the
/// first one that is done counts. Only of a scheduler that `repeats`.
struct WorkAssignment {
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();
  std::size_t device = 0;
  std::size_t rows = 0;
  std::size_t from = kNobody;
  bool repeat = false;
};

struct FinishedWork {
  std::size_t device = 0;
  std::size_t rows = 0;
  Nanoseconds started{0};
  Nanoseconds ended{0};
};

struct FailedWork {
  std::size_t device = 0;
  std::size_t rows = 0;
  FailureKind kind = FailureKind::kWork;
  /// How often these rows have failed because a device was lost, this time included.
  int attempts = 1;
  Nanoseconds now{0};
  std::string reason;
};

/// What becomes of rows that failed.
enum class Recovery {
  /// The run ends with the exception.
  kStop,
  /// They go back to those left, and so does, here as below, all that waits at the device.
  kRequeue,
  /// They go back in two halves.
  kSplit,
};

/// Decides for a dispatcher. It is called by one thread at a time (the dispatcher holds its lock),
/// except `enter` and `leave`. A scheduler may serve several dispatchers one after the other, not
/// at the same time. An exception out of it ends the run.
class WorkScheduler {
 public:
  virtual ~WorkScheduler() = default;

  /// Fixed from construction on; `WorkAssignment::device` counts in this order.
  [[nodiscard]] virtual std::span<const WorkDevice> devices() const = 0;

  /// The largest sub-batch that a device is ever given, where that is fixed; 0: it is not.
  [[nodiscard]] virtual std::size_t fixed_batch(std::size_t /*device*/) const { return 0; }

  /// Whether it may have a sub-batch computed by two devices. Fixed from construction on.
  [[nodiscard]] virtual bool repeats() const { return false; }

  virtual void begin_run(const RunView& /*view*/) {}
  /// Who takes rows now. Asked again until it answers nothing, and again after every change. With
  /// rows left, nothing at work and no answer, the run ends with an Error that quotes `stalled`.
  [[nodiscard]] virtual std::optional<WorkAssignment> assign(const RunView& view) = 0;
  virtual void finished(const FinishedWork& /*work*/) {}
  [[nodiscard]] virtual Recovery failed(const FailedWork& /*work*/) { return Recovery::kStop; }
  virtual void end_run(const RunView& /*view*/) {}
  /// Why nothing is assigned although rows are left.
  [[nodiscard]] virtual std::string stalled() const { return "no device takes them"; }

  /// Called by a lane before and after it computes a sub-batch, without the lock: a scheduler
  /// that shares its devices with other processes waits here, and answers true. An exception counts
  /// as the sub-batch's failure; `leave` follows every `enter` that returned.
  virtual bool enter(std::size_t /*device*/, std::size_t /*rows*/) { return false; }
  virtual void leave(std::size_t /*device*/, std::size_t /*rows*/) {}
};

/// Repeats a list of length 1 for `count` devices; another length than 1 or `count` is an Error
/// (kInvalidArgument) that names `what`.
template <typename T>
[[nodiscard]] std::vector<T> broadcast(std::vector<T> values, std::size_t count,
                                       std::string_view what) {
  if (values.size() == 1) values.resize(count, values.front());
  if (values.size() != count) {
    fail(ErrorCode::kInvalidArgument,
         "{} {} for {} device(s): give one for all, or one for each device", values.size(), what,
         count);
  }
  return values;
}

}  // namespace harmonics::inline in_dispatch
