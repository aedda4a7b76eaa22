// Lines of progress for whoever supervises this process (docs/formats/progress.md).
#pragma once

#include <cstdint>

#include <harmonics/base/clock.h>
#include <harmonics/runtime/trainer.h>

namespace harmonics {

/// Writes to the descriptor that HARMONICS_PROGRESS_FD names; without that variable it does
/// nothing. A reader that is gone or slow never stops the training. One thread; the clock must
/// outlive it.
class ProgressPipe {
 public:
  ProgressPipe(std::int64_t epochs, const Clock& clock);

  /// At most a few lines a second.
  void on_step(const StepReport& step);
  void on_epoch(const EpochReport& epoch);

 private:
  void write(const std::string& line);

  int descriptor_ = -1;
  std::int64_t epochs_;
  const Clock& clock_;
  Nanoseconds written_{};
};

}  // namespace harmonics
