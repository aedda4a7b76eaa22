// What a training run ends with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <harmonics/base/json.h>
#include <harmonics/schedule/trainer.h>

namespace harmonics::inline in_torch_program {

struct TrainReport {
  std::string graph;
  /// Since the run began, also over restarts.
  std::int64_t epochs = 0;
  std::int64_t steps = 0;
  /// Of the last whole epoch; when there is none, of the part of it that was done. Not known for a
  /// run that had ended before this process started.
  std::optional<double> train_loss;
  std::optional<double> train_accuracy;
  /// After the last whole epoch.
  std::optional<Evaluation> test;
  std::string weights_digest;
  /// The digest is of this part's weights alone; nothing: of all.
  std::optional<std::int64_t> digest_part;
  double seconds = 0;
  double samples_per_second = 0;
  std::int64_t parts = 1;
  std::int64_t replicas = 1;
  std::int64_t micro_batches = 1;
  std::int64_t seed = 0;
  /// How batches were dealt out (BatchShares); one process that is given it learns the same.
  std::string shares = "equal";
  std::string checkpoint;
  /// Of a secure run: what its parts signed last, a line each, and the file of the chain if it was
  /// kept.
  std::string proof;
  std::string chain;
  bool stopped_early = false;
  bool interrupted = false;
  /// There was nothing left to do.
  bool was_complete = false;
};

[[nodiscard]] Json report_json(const TrainReport& report);
[[nodiscard]] std::string report_text(const TrainReport& report, bool colour);

}  // namespace harmonics::inline in_torch_program
