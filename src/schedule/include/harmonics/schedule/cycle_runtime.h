// CycleRuntime: one graph, its weights and its data, in one object.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <harmonics/data/producer.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>
#include <harmonics/schedule/stage_row.h>
#include <harmonics/schedule/trainer.h>

namespace harmonics::inline in_schedule {

/// Computes a graph and, when it has a training tap, learns. One thread.
///
///     CycleRuntime runtime(load_harp("digits.harp"));
///     runtime.bindProducer("image", images);
///     runtime.bindProducer("label", labels);
///     runtime.fit(30);
///     runtime.save_checkpoint("digits.safetensors");
///
/// A graph whose producers have no declared shape is completed from the data that is bound; until
/// then everything but binding is an Error that names the producer.
class CycleRuntime {
 public:
  explicit CycleRuntime(HarmonicGraph graph, RuntimeOptions options = {});
  ~CycleRuntime();
  CycleRuntime(CycleRuntime&&) noexcept;
  CycleRuntime& operator=(CycleRuntime&&) noexcept;

  void bindProducer(const std::string& name, ProducerPtr producer);
  void bindConsumer(const std::string& name, ConsumerPtr consumer);

  /// One cycle: pull a batch, compute, push to the bound consumers, learn.
  StepReport step();
  /// `epochs` passes over the bound data.
  FitReport fit(std::int64_t epochs, const FitOptions& options = {});
  [[nodiscard]] Evaluation evaluate(const NamedProducers& producers);
  /// The consumers' outputs for these inputs (each with a leading batch axis), in evaluation mode.
  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs);

  /// Saves everything that training needs; whole or not at all. See checkpoint.h.
  void save_checkpoint(const std::filesystem::path& path) const;
  void load_checkpoint(const std::filesystem::path& path);
  /// Start weights from a safetensors file; `names` maps our names to the file's.
  void load_weights(const std::filesystem::path& path,
                    const std::map<std::string, std::string>& names = {});

  /// With `options.secure` every batch is signed: the data that enters, the tensors that leave the
  /// graph, the weights (docs/guides/custody.md). `close` ends the chain, no step may follow;
  /// destroying the runtime does it too, unless a step failed. Does nothing otherwise.
  void close();
  /// What was signed last: run, stage, number and digest of the head, signature. Empty before the
  /// first step and in a run that is not secure.
  [[nodiscard]] std::string proof() const;

  [[nodiscard]] const HarmonicGraph& graph() const;
  /// Parameters and buffers by name; they share the runtime's memory.
  [[nodiscard]] NamedTensors parameters() const;
  [[nodiscard]] std::string weights_digest() const;
  [[nodiscard]] const TrainingProgress& progress() const;
  /// For schedulers and tests.
  [[nodiscard]] StageRow& row();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harmonics::inline in_schedule
