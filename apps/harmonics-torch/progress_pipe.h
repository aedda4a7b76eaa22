// Lines of progress for whoever supervises this process (docs/formats/progress.md).
#pragma once

#include <cstdint>
#include <functional>

#include <harmonics/base/clock.h>
#include <harmonics/base/json.h>
#include <harmonics/schedule/throughput.h>
#include <harmonics/schedule/trainer.h>

namespace harmonics::inline in_torch_program {

/// Writes to the descriptor that HARMONICS_PROGRESS_FD names; without that variable it does
/// nothing. A reader that is gone or slow never stops the training. One thread; the clock must
/// outlive it.
class ProgressPipe {
 public:
  /// What is run, for shares and rates.
  struct Run {
    std::int64_t epochs = 0;
    std::int64_t micro_batches = 1;
    /// How long this process has waited for others in all; empty: there are none.
    std::function<Nanoseconds()> waited{};
  };
  ProgressPipe(Run run, const Clock& clock);

  /// At most a few lines a second.
  void on_step(const StepReport& step);
  void on_epoch(const EpochReport& epoch);
  /// A batch of a stream has come out: so many rows in this run of `all` (0: not known), of which
  /// `before` had come out before it began. At most a few lines a second.
  struct Rows {
    std::int64_t batch = 0;
    std::int64_t done = 0;
    std::int64_t all = 0;
    std::int64_t before = 0;
  };
  void on_rows(const Rows& rows);
  /// The last of them, whenever the line before was.
  void on_last_rows(const Rows& rows);

 private:
  void write(Json line);
  void write_rows(const Rows& rows);
  [[nodiscard]] bool is_due(std::int64_t samples);

  int descriptor_ = -1;
  const Run run_;
  const Clock& clock_;
  ThroughputMeter meter_;
  Nanoseconds written_{};
  std::int64_t largest_ = 0;  ///< Samples of a step: one of fewer is the last of its epoch.
};

}  // namespace harmonics::inline in_torch_program
