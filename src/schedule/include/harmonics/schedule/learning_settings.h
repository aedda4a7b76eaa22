// LearningSettings: what decides how a run learns, besides its graph and its data.
//
// Checkpoints keep them, so that a run goes on as it began (docs/formats/checkpoint.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/runtime/options.h>

namespace harmonics::inline in_schedule {

struct LearningSettings {
  std::uint64_t seed = 1;
  int micro_batches = 1;
  OptimizerOptions optimizer = {};
  LearningRateSchedule schedule = {};
  double clip_norm = 0.0;
  DataSettings data = {};
  /// Which arithmetic computes. A row keeps its own: loading a checkpoint does not change it.
  bool reproducible = false;
  bool operator==(const LearningSettings&) const = default;
};

[[nodiscard]] LearningSettings learning_settings(const RuntimeOptions& options);

[[nodiscard]] Json settings_json(const LearningSettings& settings);
/// What settings_json gave. Keys that it does not have are the defaults; values that make no sense
/// are an Error (kDataLoss) that names them.
[[nodiscard]] LearningSettings settings_from_json(const Json& json);

/// Every setting as text, by the name that it has on the command line ("lr", "batch_size"); those
/// of the data only where they are known.
[[nodiscard]] std::map<std::string, std::string> setting_texts(const LearningSettings& settings);

/// How a run goes on that was made with some settings and loads a checkpoint with others.
struct ResumedSettings {
  LearningSettings settings;
  /// What was given and wins, such as "lr 0.5 (0.1)": in parentheses the checkpoint's.
  std::vector<std::string> given;
  /// What comes from the checkpoint in place of a default.
  std::vector<std::string> taken;
};

/// Groups that are the defaults of RuntimeOptions give way to `saved`: the optimiser, the schedule,
/// clipping, seed, number of micro-batches. What was said of the data stays unless nothing was.
[[nodiscard]] ResumedSettings resumed_settings(const LearningSettings& own,
                                               const LearningSettings& saved);

}  // namespace harmonics::inline in_schedule
