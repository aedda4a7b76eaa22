// DispatchEngine: the threads under a WorkDispatcher. It knows rows and devices, not what is
// computed.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/dispatch/generator.h>
#include <harmonics/dispatch/scheduler.h>
#include <harmonics/dispatch/timeline.h>
#include <harmonics/dispatch/trace.h>

namespace harmonics::inline in_dispatch {

/// How a dispatcher works, for all of its runs.
struct DispatchOptions {
  /// False: everything is computed by the thread that calls `run`, one sub-batch after the other.
  bool async = true;
  /// Lanes of each device other than the CPU, which has one. 0: two for cuda and xpu, so that
  /// copies and computing overlap, and one for others. With more than one, the functions are called
  /// for one device by several threads at the same time.
  int lanes = 0;
  /// Bytes that a device may hold of the batch at a time, by device name. Needs `row_bytes`.
  std::map<std::string, std::size_t> memory_caps = {};
  /// Bytes of one row on a device: input, output and what is computed in between.
  std::size_t row_bytes = 0;
  /// Cores to share out between the CPU's lane and those that feed accelerators; 0: all.
  int cores = 0;
  /// Null: the machine's time.
  std::shared_ptr<Timeline> timeline = nullptr;
  /// Null: nothing is recorded.
  std::shared_ptr<DispatchTrace> trace = nullptr;
};

struct DispatchProgress {
  std::size_t done_rows = 0;
  std::size_t total_rows = 0;
};

/// How one run goes.
struct RunOptions {
  /// Called by lanes, one at a time, at most every `progress_interval` and once at the end. False
  /// ends the run with an Error (kCancelled).
  std::function<bool(const DispatchProgress&)> progress = nullptr;
  Nanoseconds progress_interval = std::chrono::milliseconds(100);
  /// Ends the run with an Error (kCancelled) once what is at work has finished.
  std::stop_token stop = {};
  /// A run that takes longer ends with an Error (kDeadlineExceeded) that names the devices still at
  /// work.
  Nanoseconds timeout = std::chrono::hours(24);
};

/// When the phases of a sub-batch ended; filled only when a trace is recorded.
struct ChunkPhases {
  Nanoseconds prepared{0};
  Nanoseconds computed{0};
};

/// Where sub-batches may be computed twice: a lane says how far it is.
class ChunkGate {
 public:
  virtual ~ChunkGate() = default;
  /// The input is made: from now on the run may end without this lane.
  virtual void loaded() = 0;
  /// Before the result is kept. False: another device was first, and it must not be.
  [[nodiscard]] virtual bool commit() = 0;
};

/// What is computed. `run` is called from several threads at once, for rows that never overlap
/// unless they are repeated.
class DispatchJob {
 public:
  virtual ~DispatchJob() = default;
  /// `lane` counts the lanes of all devices. An exception means that nothing was kept. `gate`
  /// is null where nothing is repeated.
  virtual void run(const WorkDevice& device, std::size_t lane, RowRange rows, ChunkPhases* phases,
                   ChunkGate* gate) = 0;
};

/// Owns one thread per lane from construction to destruction; they claim rows themselves, the
/// caller only waits. One run at a time; every member is called by one thread.
class DispatchEngine {
 public:
  using InitThread = std::function<void(const WorkDevice&)>;

  /// `init_thread` has run on every lane when the constructor returns; its exception leaves the
  /// constructor. The scheduler stays the caller's and outlives the engine.
  DispatchEngine(WorkScheduler& scheduler, DispatchOptions options, InitThread init_thread);
  /// Stops a run that is under way, waits for what is at work, and ends the threads.
  ~DispatchEngine();
  DispatchEngine(const DispatchEngine&) = delete;
  DispatchEngine& operator=(const DispatchEngine&) = delete;

  /// Begins to compute `rows`. A run that is still under way is an Error (kFailedPrecondition).
  void start(DispatchJob& job, RowRange rows, RunOptions options);
  /// Returns when all rows are done, or throws what went wrong once nothing is at work any more.
  /// After a timeout, a device that does not come back within kDrainGrace stays at work and the
  /// engine takes no run until it has.
  void wait();

  /// Ends a run that is under way: nothing more is given out, and it returns once what is at work
  /// has ended. Its errors are dropped. Without a run it does nothing.
  void cancel();

  static constexpr Nanoseconds kDrainGrace = std::chrono::seconds(10);

  /// Lanes of all devices.
  [[nodiscard]] std::size_t lane_count() const;
  [[nodiscard]] const Timeline& timeline() const;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace harmonics::inline in_dispatch
