// StageRow: the stages of one graph, which learn together.
//
// A whole graph is a row of one; the parts of a cut graph are a row of several. Outputs,
// gradients and weights are the same bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/runtime/stage.h>
#include <harmonics/schedule/batch_runner.h>
#include <harmonics/schedule/learning_settings.h>
#include <harmonics/schedule/run_agreement.h>

namespace harmonics::inline in_schedule {

class SecureRun;

/// What one batch did.
struct BatchReport {
  std::int64_t samples = 0;
  TapReport taps;
  /// Norm of all gradients before clipping; only measured when clipping is on.
  double gradient_norm = 0;
  double learning_rate = 0;
  /// False when an fp16 overflow made all parts skip the update.
  bool updated = true;
};

/// Numbers that a row needs to go on after a restart.
struct LearningState {
  /// Batches trained on, and updates made (smaller only after fp16 overflows).
  std::int64_t steps = 0;
  std::int64_t updates = 0;
  double loss_scale = 65536.0;
  std::int64_t steps_since_overflow = 0;
};

/// A tensor that crosses from one part of a row to a later one, and its gradient back.
struct RowBoundary {
  std::string name;
  std::size_t from = 0;
  std::size_t to = 0;
};

/// Boundaries of a row whose other ends are not in it.
struct OpenBoundaries {
  std::set<std::string, std::less<>> entering = {};
  std::set<std::string, std::less<>> leaving = {};
};

/// Owns its stages and what runs them: one after another on the caller's thread, until set_runner
/// says otherwise. One thread.
class StageRow {
 public:
  /// The parts of one graph in order, cut by partition_graph or made by hand; every boundary must
  /// have both of its ends here, otherwise an Error names it; `open` ones are left to runner and
  /// agreement.
  StageRow(const std::vector<HarmonicGraph>& parts, const std::vector<RuntimeOptions>& options,
           OpenBoundaries open = {});

  [[nodiscard]] std::vector<Stage>& stages() { return stages_; }
  [[nodiscard]] const std::vector<Stage>& stages() const { return stages_; }
  /// Producers and consumers that are no boundaries between the parts.
  [[nodiscard]] const std::vector<ProducerNode>& producers() const { return producers_; }
  [[nodiscard]] const std::vector<ConsumerNode>& consumers() const { return consumers_; }
  [[nodiscard]] const std::vector<RowBoundary>& boundaries() const { return boundaries_; }
  [[nodiscard]] BatchRunner& runner() { return *runner_; }
  /// From now on `runner` takes the micro-batches through the stages.
  void set_runner(std::unique_ptr<BatchRunner> runner) { runner_ = std::move(runner); }
  /// Hands the runner out, for one that is built around it: set_runner must follow.
  [[nodiscard]] std::unique_ptr<BatchRunner> take_runner() { return std::move(runner_); }
  [[nodiscard]] RunAgreement& agreement() { return *agreement_; }
  /// From now on the parts here settle with those elsewhere through `agreement`.
  void set_agreement(std::unique_ptr<RunAgreement> agreement) { agreement_ = std::move(agreement); }
  /// Makes the run a secure one; a runner that is set later must sign and check with it.
  void set_custody(std::shared_ptr<SecureRun> custody) { custody_ = std::move(custody); }
  /// Null: the run is not secure.
  [[nodiscard]] SecureRun* custody() const { return custody_.get(); }
  /// True when boundaries lead to parts that are elsewhere.
  [[nodiscard]] bool is_partial() const {
    return !open_.entering.empty() || !open_.leaving.empty();
  }
  /// True when some part here has a tap, which measures a loss.
  [[nodiscard]] bool has_tap() const { return has_tap_; }
  /// True when some part has a tap, or takes gradients from parts that are elsewhere.
  [[nodiscard]] bool learns() const { return learns_ || agreement_->learns(); }
  /// Producers that are only the target of taps are not needed for `infer`.
  [[nodiscard]] bool is_target_only(std::string_view producer) const;

  /// One step of learning. A loss that is not finite is an Error with the step and the first layer
  /// whose output is not finite; the weights keep their values from before the batch (running
  /// statistics of batch_norm excepted), and the row can go on. `outputs`, if given, receives
  /// what the consumers saw.
  BatchReport train(const NamedTensors& batch, NamedTensors* outputs = nullptr);
  [[nodiscard]] NamedTensors infer(const NamedTensors& batch);
  [[nodiscard]] NamedTensors evaluate(const NamedTensors& batch, BatchReport& report);
  /// The same for many batches, which a runner with several threads takes through its stages at the
  /// same time; with `measure` the taps are computed.
  [[nodiscard]] std::vector<Computed> compute(std::span<const NamedTensors> batches, bool measure);

  [[nodiscard]] const LearningState& state() const { return state_; }
  void set_state(const LearningState& state) { state_ = state; }
  /// What it was made with, or has taken over since.
  [[nodiscard]] LearningSettings settings() const { return learning_settings(options_); }
  [[nodiscard]] SettingsOnLoad on_load() const { return options_.on_load; }
  /// All stages learn by these from now on; the optimiser's state is dropped where they differ.
  void set_settings(const LearningSettings& settings);
  /// All parameters, or all optimiser slots, of all stages by name.
  [[nodiscard]] NamedTensors parameters() const;
  [[nodiscard]] NamedTensors optimizer_state() const;

 private:
  void check_boundaries();
  [[nodiscard]] bool scales_loss() const;
  [[nodiscard]] double gradient_square_sum();
  void finish(BatchReport& report);
  [[nodiscard]] NamedTensors drop_boundaries(NamedTensors outputs) const;
  [[noreturn]] void report_non_finite_loss();

  RuntimeOptions options_;
  std::vector<Stage> stages_;
  std::vector<ProducerNode> producers_;
  std::vector<ConsumerNode> consumers_;
  std::vector<RowBoundary> boundaries_;
  OpenBoundaries open_;
  std::shared_ptr<SecureRun> custody_;
  std::unique_ptr<RunAgreement> agreement_;
  std::unique_ptr<BatchRunner> runner_;  // may look at the agreement
  bool has_tap_ = false;
  bool learns_ = false;
  LearningState state_;
};

}  // namespace harmonics::inline in_schedule
