// Checkpoints: everything that training needs to go on as if it had never stopped.
//
// One safetensors file: "model.<parameter>", "optim.<parameter>.<slot>", and one JSON string in the
// metadata with counters, precision and the producers' positions. docs/formats/checkpoint.md is the
// page of this format. A file does not depend on how the graph was cut: it resumes in any number of
// parts. Stages in several processes write a file each and a manifest (manifest.h) over them, which
// is read wherever a checkpoint is.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <harmonics/data/producer.h>
#include <harmonics/schedule/manifest.h>
#include <harmonics/schedule/stage_row.h>

namespace harmonics::inline in_schedule {

/// Where a run stands in its data, with the sums of the epoch under way.
struct TrainingProgress {
  std::int64_t epochs_done = 0;
  std::int64_t batches_in_epoch = 0;
  std::int64_t samples_in_epoch = 0;
  TapReport taps_in_epoch;
  /// Means of the last whole epoch, once there was one.
  std::optional<double> last_train_loss;
  std::optional<double> last_train_accuracy;
  /// Best evaluation so far and how many epochs ago, for early stopping.
  double best_loss = 0;
  std::int64_t epochs_since_best = -1;
  std::map<std::string, ProducerPosition> positions;
  /// Rows of the largest batch so far; 0 before the first.
  std::int64_t batch_rows = 0;
};

/// Writes weights, optimiser state and counters to `path`, whole or not at all, and gives the
/// SHA-256 that stands in the file.
std::string save_checkpoint(const std::filesystem::path& path, const StageRow& row,
                            const TrainingProgress& progress);

/// Restores what save_checkpoint wrote, or the latest step of a manifest. A file that is truncated,
/// damaged, of another kind or of another graph (naming the first layer that differs) is an Error
/// and changes nothing. A row with open boundaries takes what is its own. How it learns
/// (learning_settings.h) comes from the file where the row was made with defaults; what was given
/// and differs wins, and a warning says so (SettingsOnLoad). Precision stays that of the row;
/// another one than the file's is logged.
[[nodiscard]] TrainingProgress load_checkpoint(const std::filesystem::path& path, StageRow& row);
/// The same from the files of one saved step, which lie in `folder`; files whose digest is not the
/// one that the step names, or that are not of one step, are an Error too.
[[nodiscard]] TrainingProgress load_saved_step(const std::filesystem::path& folder,
                                               const SavedStep& saved, StageRow& row);

/// Steps done, as a checkpoint or the latest step of a manifest says.
[[nodiscard]] std::int64_t checkpoint_steps(const std::filesystem::path& path);
/// How the run of a checkpoint learnt; nothing where it does not say, as older ones, or where there
/// is no file.
[[nodiscard]] std::optional<LearningSettings> checkpoint_settings(
    const std::filesystem::path& path);
/// All parameters and buffers of a checkpoint, or of the latest step of a manifest, by name.
[[nodiscard]] NamedTensors checkpoint_weights(const std::filesystem::path& path);

/// Start weights from a checkpoint, a manifest or whatever WeightSource opens: safetensors, an
/// index of them, GGUF, a map. Files without a checksum are mapped, and only tensors of these
/// stages are read. `names` maps our parameter names to those in the file; names that are not in
/// the map are taken as they are, with or without "model.".
void load_weights(const std::filesystem::path& path, StageRow& row,
                  const std::map<std::string, std::string>& names = {});

}  // namespace harmonics::inline in_schedule
