// What `--resume` goes on with: the checkpoint's settings, unless a flag says otherwise.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/options/commands.h>
#include <harmonics/schedule/learning_settings.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_torch_program {

/// Puts the settings of the checkpoint that a command resumes from into `settings`, but for those
/// that a flag gave. `said` gets a line for each flag that wins over the checkpoint, for each line
/// of the file that loses to it, and one for what was taken in place of defaults. Nothing when the
/// command does not resume, there is no checkpoint yet, or it is too old to say.
[[nodiscard]] std::optional<LearningSettings> take_resumed_settings(const TrainCommand& command,
                                                                    const HarpDocument& document,
                                                                    TrainSettings& settings,
                                                                    std::vector<std::string>& said);

/// What these settings are to a checkpoint; without the length of the schedule.
[[nodiscard]] LearningSettings learning_settings(const TrainSettings& settings);

}  // namespace harmonics::inline in_torch_program
