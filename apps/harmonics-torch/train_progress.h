// What a person sees while a training run goes on, on standard error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <harmonics/base/clock.h>
#include <harmonics/schedule/trainer.h>

namespace harmonics::inline in_torch_program {

/// On a terminal one line that is drawn anew, with a bar, and one line per epoch; elsewhere the
/// lines per epoch alone, without control characters. One thread; the clock must outlive it.
class TrainProgress {
 public:
  /// `epochs` in the whole run, `epochs_done` before this process.
  TrainProgress(std::int64_t epochs, std::int64_t epochs_done, const Clock& clock);
  ~TrainProgress();
  TrainProgress(const TrainProgress&) = delete;
  TrainProgress& operator=(const TrainProgress&) = delete;

  /// Those who train are being started: what passes until their first step counts for no rate, and
  /// neither do the samples of that step.
  void pause();
  void on_step(const StepReport& step);
  void on_epoch(const EpochReport& epoch);
  /// Wipes the bar, so that other text can follow; the destructor does it too.
  void clear();

 private:
  [[nodiscard]] std::string bar_line(const StepReport& step) const;
  [[nodiscard]] double seconds_since(Nanoseconds start) const;

  const std::int64_t epochs_;
  const std::int64_t epochs_done_;
  const Clock& clock_;
  const bool live_;
  const bool colour_;
  Nanoseconds started_;
  Nanoseconds drawn_{};
  Nanoseconds epoch_started_;
  std::optional<Nanoseconds> paused_{};  // since then, until the next step
  bool shown_ = false;                   // a bar stands on the screen
  std::int64_t samples_ = 0;             // trained on since it started, pauses aside
  std::int64_t first_batch_ = 0;         // of this process, when it began within an epoch
  // Sums over the epoch under way.
  std::int64_t epoch_samples_ = 0;
  std::int64_t epoch_timed_ = 0;  // of these samples: those whose time is known
  double loss_sum_ = 0;
  double accuracy_sum_ = 0;
};

}  // namespace harmonics::inline in_torch_program
