// What a stage that `harmonics train --processes` started tells it, one JSON text a line.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include <harmonics/schedule/trainer.h>

#include "train_report.h"
#include "training_job.h"

namespace harmonics::inline in_torch_program {

using StageEvent = std::variant<StepReport, EpochReport, TrainReport>;

[[nodiscard]] std::string encode_event(const StageEvent& event);
/// Text that is no event is an Error.
[[nodiscard]] StageEvent decode_event(const std::string& line);

/// Writes events to the descriptor that the environment names; does nothing where it names none. A
/// reader that is gone is an Error.
class StageEvents {
 public:
  StageEvents();
  [[nodiscard]] TrainingListener listener();
  void tell(const StageEvent& event);
  /// The same for an event that is a line of JSON already.
  void tell_line(const std::string& text);
  [[nodiscard]] bool wanted() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

}  // namespace harmonics::inline in_torch_program
