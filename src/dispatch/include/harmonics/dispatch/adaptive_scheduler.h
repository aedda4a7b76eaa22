// AdaptiveScheduler: learns what each device can do while it runs. The one to use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/dispatch/rates.h>
#include <harmonics/dispatch/scheduler.h>

namespace harmonics::inline in_dispatch {

struct AdaptiveConfig {
  std::vector<std::string> devices;
  /// Sizes to go to right after the first rows, one for all devices or one each, where nothing was
  /// learned; they may be wrong: a device whose first row took too long for that gets fewer. Empty:
  /// sizes grow step by step.
  std::vector<std::size_t> first_batches = {};
  /// Under this name what was learned is kept in `rates_file`.
  std::string model = "model";
  /// Empty: nothing is kept. See default_rates_file().
  std::filesystem::path rates_file = {};
  /// The smallest sub-batch whose throughput comes this close to the best is used.
  double efficiency = 0.97;
  /// Shorter sub-batches than this are not worth their hand-over.
  Nanoseconds least_time = std::chrono::milliseconds(5);
  /// Rows that met so many lost devices end the run.
  int max_attempts = 3;
  /// True: when no rows are left, an idle device computes again what is at work on one that would
  /// end later, or of which nothing is known; the first result counts, once, and `run` returns
  /// without waiting for the other. So a device that takes long for its first row, or hangs, does
  /// not delay the end. The price is in the contract of the functions: they may be called twice for
  /// the same rows, at the same time on two devices, and one of them may still be at work when
  /// `run` has returned: what they use must live until the dispatcher is destroyed, which waits for
  /// them. The generator is not used any more, and nothing is put into the result or the trace.
  bool repeat_late = false;
};

/// What an AdaptiveScheduler knows about a device.
struct DeviceKnowledge {
  std::string device;
  /// False: no sub-batch has been seen yet.
  bool known = false;
  double latency_s = 0;
  double rows_per_second = 0;
  /// The sub-batch that it would use in a long run.
  std::size_t best_batch = 0;
  /// The most rows that fit its memory; 0: no limit was met.
  std::size_t ceiling_rows = 0;
  bool quarantined = false;
};

/// Fits latency and rate per device from every sub-batch, and picks sizes itself: a single row
/// first, then more as far as the device would be done in time even if all that was measured so far
/// were the rows', then the smallest sub-batches that come close to full throughput, and towards
/// the end just so many rows that all devices finish together; a device that would only delay the
/// end gets none. So a run over devices of which nothing is known ends within 5 % of the best
/// subset of them, too (rates from 1e2 to 1e7 rows/s, a run of 200 latencies or more); the one row
/// that an unknown device has begun is waited for unless `repeat_late`. An idle device takes over
/// rows that wait at another one when both then finish earlier. Out of memory: the sub-batch comes
/// back in halves and the size is remembered as too large. A lost device is quarantined, its rows
/// go elsewhere, and the next run begins with a probe of it.
///
/// Wrong configurations are an Error (kInvalidArgument), as are more first_batches than devices.
class AdaptiveScheduler final : public WorkScheduler {
 public:
  explicit AdaptiveScheduler(AdaptiveConfig config);
  explicit AdaptiveScheduler(std::vector<std::string> devices)
      : AdaptiveScheduler(AdaptiveConfig{.devices = std::move(devices)}) {}
  /// Saves what was learned since the last save; an error is logged.
  ~AdaptiveScheduler() override;

  [[nodiscard]] std::span<const WorkDevice> devices() const override { return devices_; }
  [[nodiscard]] bool repeats() const override { return config_.repeat_late; }
  void begin_run(const RunView& view) override;
  [[nodiscard]] std::optional<WorkAssignment> assign(const RunView& view) override;
  void finished(const FinishedWork& work) override;
  [[nodiscard]] Recovery failed(const FailedWork& work) override;
  void end_run(const RunView& view) override;
  [[nodiscard]] std::string stalled() const override;

  /// What it knows now. Not during a run.
  [[nodiscard]] std::vector<DeviceKnowledge> knowledge() const;
  /// Writes what was learned to the rates file, if there is one.
  void save();

 private:
  struct Learner {
    RateModel rate;
    std::size_t first_batch = 0;
    std::size_t largest_seen = 0;
    std::size_t ceiling_rows = 0;  // 0: none
    Nanoseconds last_ended{0};
    int lanes = 1;
    bool quarantined = false;
    bool on_probation = false;
    std::string reason;
  };

  [[nodiscard]] bool takes_more(std::size_t device, const RunView& view) const;
  [[nodiscard]] std::size_t best_batch(const Learner& learner) const;
  [[nodiscard]] std::size_t piece_rows(std::size_t device, const RunView& view) const;
  [[nodiscard]] double ready_s(std::size_t device, const RunView& view) const;
  [[nodiscard]] std::optional<WorkAssignment> probe(const RunView& view) const;
  [[nodiscard]] std::optional<WorkAssignment> share(const RunView& view) const;
  [[nodiscard]] std::optional<WorkAssignment> steal(const RunView& view) const;
  [[nodiscard]] std::optional<WorkAssignment> repeat(const RunView& view) const;
  [[nodiscard]] std::optional<WorkAssignment> last_rows(const RunView& view) const;
  [[nodiscard]] std::size_t fitting(const Learner& learner, const DeviceLoad& load,
                                    double rows) const;
  [[nodiscard]] LearnedRates learned() const;

  AdaptiveConfig config_;
  std::vector<WorkDevice> devices_;
  std::vector<Learner> learners_;
  LearnedRates saved_;
};

}  // namespace harmonics::inline in_dispatch
