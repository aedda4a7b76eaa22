// Trainer: pulls batches from bound producers, lets a row of stages learn, and keeps count.
//
// CycleRuntime and the schedulers are built on it, so that epochs, evaluation, metrics and
// checkpoints mean the same everywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <harmonics/data/producer.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/stage_row.h>
#include <harmonics/schedule/stream.h>

namespace harmonics::inline in_schedule {

class MetricsFile;

/// One batch, as a callback sees it. Steps and epochs count from 1.
struct StepReport {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  /// Batches of this epoch so far, and in all where the data has a size.
  std::int64_t batch = 0;
  std::optional<std::int64_t> batches_in_epoch;
  std::int64_t samples = 0;
  /// Mean over the batch's samples; not set when the graph only infers.
  std::optional<double> loss;
  /// Share of right predictions, where a cross_entropy tap judges.
  std::optional<double> accuracy;
  double learning_rate = 0;
  double gradient_norm = 0;
  bool updated = true;
};

struct Evaluation {
  std::int64_t samples = 0;
  double loss = 0;
  std::optional<double> accuracy;
};

struct EpochReport {
  std::int64_t epoch = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  std::optional<double> train_loss;
  std::optional<double> train_accuracy;
  std::optional<Evaluation> evaluation;
};

struct FitOptions {
  /// A second binding of all producers: measured after every epoch.
  NamedProducers evaluation = {};
  /// Stop after this many epochs without a better evaluation loss; 0 never stops early.
  int patience = 0;
  std::function<void(const StepReport&)> on_step = {};
  std::function<void(const EpochReport&)> on_epoch = {};
  /// JSON lines, one per step and epoch, appended. Empty: none.
  std::filesystem::path metrics = {};
  /// Written every `checkpoint_every` steps and `checkpoint_every_epochs` epochs (0: never), and
  /// when fit ends. Empty: none.
  std::filesystem::path checkpoint = {};
  std::int64_t checkpoint_every = 0;
  std::int64_t checkpoint_every_epochs = 0;
  /// Those of `checkpoint_every` stay, each as `<checkpoint>.step<N>` too, for audits; of parts in
  /// one process alone.
  bool keeps_checkpoints = false;
  /// When it becomes true, fit finishes the step under way, saves and returns.
  const std::atomic<bool>* stop = nullptr;
};

struct FitReport {
  /// Since the run began, also over restarts.
  std::int64_t epochs = 0;
  std::int64_t steps = 0;
  /// Of the last whole epoch.
  EpochReport last_epoch;
  bool stopped_early = false;
  bool interrupted = false;
};

/// One thread. The row must outlive it.
class Trainer {
 public:
  Trainer(StageRow& row, std::uint64_t seed) : row_(row), seed_(seed) {}

  /// A name that the graph does not have or that is bound already is an Error that lists what there
  /// is. Data whose samples have as many elements as declared are viewed in the declared shape.
  void bind_producer(const std::string& name, ProducerPtr producer);
  void bind_consumer(const std::string& name, ConsumerPtr consumer);

  /// One batch; past the end of the data the next epoch begins. Returns what happened.
  StepReport step();
  /// `epochs` passes over the sized producers; an epoch that a checkpoint broke off in counts as
  /// one. With nothing sized an epoch is one step.
  FitReport fit(std::int64_t epochs, const FitOptions& options = {});
  /// Loss and accuracy over one pass of these producers, which must bind every producer.
  [[nodiscard]] Evaluation evaluate(const NamedProducers& producers);

  /// What the consumers got for each of these batches, in evaluation mode; they pass the parts at
  /// the same time where these have threads.
  [[nodiscard]] std::vector<NamedTensors> infer(std::span<const NamedTensors> batches);
  /// See Learner.
  StreamReport stream(const NamedProducers& producers, const NamedConsumers& consumers,
                      const StreamOptions& options = {});

  /// Saves the stages here and gives the file's SHA-256, as it stands in the file.
  std::string save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path);
  /// From the files of one saved step.
  void load(const std::filesystem::path& folder, const SavedStep& saved);
  [[nodiscard]] const TrainingProgress& progress() const { return progress_; }
  [[nodiscard]] StageRow& row() const { return row_; }

 private:
  const ProducerNode& declared(const std::string& name) const;
  void check_bindings(const NamedProducers& producers, bool needs_targets) const;
  void check_consumer(const std::string& name) const;
  [[nodiscard]] std::vector<StreamFeed> feeds_of(const NamedProducers& producers) const;
  [[nodiscard]] std::set<std::size_t> giving_parts(bool measure) const;
  void begin_epoch();
  std::optional<NamedTensors> pull(const NamedProducers& producers) const;
  std::optional<NamedTensors> next_batch(const NamedProducers& producers, std::int64_t taken);
  std::optional<StepReport> try_step();
  void loaded();
  void note_rows(std::int64_t rows, const StepReport& report);
  void check_epoch_is_over(const NamedProducers& producers, std::int64_t taken) const;
  EpochReport end_epoch();
  FitTerms terms_of(std::int64_t epochs, const FitOptions& options) const;
  /// After a step, and after an epoch, of fit.
  void tell_step(const StepReport& step, const FitOptions& options, MetricsFile& metrics);
  EpochReport finish_epoch(const FitTerms& terms, const FitOptions& options, MetricsFile& metrics);
  void save_together(const std::filesystem::path& path);
  bool should_stop_early(const EpochReport& report, int patience);
  [[nodiscard]] std::uint64_t steps() const {
    return static_cast<std::uint64_t>(row_.state().steps);
  }

  StageRow& row_;
  std::uint64_t seed_;
  NamedProducers producers_;
  std::map<std::string, ConsumerPtr, std::less<>> consumers_;
  TrainingProgress progress_;
  bool in_epoch_ = false;
  std::int64_t saved_rows_ = 0;  // of the checkpoint's batches; 0: nothing to compare
};

}  // namespace harmonics::inline in_schedule
