// Reports of steps and epochs as JSON: in metrics files, between processes, and in Java.
#pragma once

#include <harmonics/base/json.h>
#include <harmonics/schedule/trainer.h>

namespace harmonics::inline in_schedule {

/// "step", "epoch", "samples", "loss", "accuracy" and "learning_rate"; what is not known is left
/// out. Whoever writes it adds what its readers need besides.
[[nodiscard]] Json report_json(const StepReport& report);
/// "epoch_done", "steps", "samples", "train_loss", "train_accuracy", "test_loss", "test_accuracy";
/// likewise.
[[nodiscard]] Json report_json(const EpochReport& report);

}  // namespace harmonics::inline in_schedule
