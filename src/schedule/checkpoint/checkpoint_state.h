// The counters in the state of a checkpoint, read and checked (private).
#pragma once

#include <harmonics/base/json.h>
#include <harmonics/schedule/checkpoint.h>

namespace harmonics::inline in_schedule {

/// Both are an Error that names the first counter that is missing or that no run can have, whatever
/// the file's checksum says.
[[nodiscard]] LearningState learning_state_from(const Json& json);
[[nodiscard]] TrainingProgress progress_from(const Json& json);

}  // namespace harmonics::inline in_schedule
