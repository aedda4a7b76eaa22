// ReplicaRunner: makes a row of stages one of several copies that learn together (private to
// schedule).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/runtime/options.h>
#include <harmonics/schedule/batch_runner.h>
#include <harmonics/schedule/reduction.h>

namespace harmonics::inline in_schedule {

/// Takes this replica's share of each batch through the stages with the runner that it is built
/// around, and sums gradients, losses and running statistics over all replicas before it returns:
/// clipping and the optimiser then see the whole batch's. After an Error every further step is one,
/// save a loss that is not finite, which all replicas see in the same step.
class ReplicaRunner final : public BatchRunner {
 public:
  /// `runtime` is compared with that of the other replicas, and so are the weights.
  ReplicaRunner(std::unique_ptr<BatchRunner> inner, Reducer reducer, const RuntimeOptions& runtime);

  [[nodiscard]] SliceResults run(std::span<Stage> stages, const SlicedBatch& batch) override;
  [[nodiscard]] std::int64_t micro_batches(std::int64_t own) const override;

  void for_each(std::span<Stage> stages,
                const std::function<void(std::size_t, Stage&)>& visit) override {
    inner_->for_each(stages, visit);
  }
  [[nodiscard]] std::vector<Computed> compute(std::span<Stage> stages,
                                              std::span<const NamedTensors> batches,
                                              bool measure) override;
  [[nodiscard]] std::size_t batches_ahead() const override { return inner_->batches_ahead(); }
  void forget_rests() override { inner_->forget_rests(); }
  void begin_fit() override;
  /// A wish travels with the sums of the next step, so that all replicas hear of it in that step.
  [[nodiscard]] bool wish_end(bool own) override;

 private:
  /// `failed` becomes the first replica whose loss is not finite, if there is one: then nothing of
  /// the batch was taken over.
  [[nodiscard]] SliceResults run_share(std::span<Stage> stages, const SlicedBatch& batch,
                                       std::optional<std::size_t>& failed);
  /// One of the stages' named tensors, of all stages.
  [[nodiscard]] NamedTensors collect(std::span<Stage> stages,
                                     NamedTensors (StageBackend::*tensors)() const);

  std::unique_ptr<BatchRunner> inner_;
  Reducer reducer_;
  const RuntimeOptions runtime_;
  bool introduced_ = false;
  bool wishes_end_ = false;
  bool end_is_wished_ = false;  // by some replica
  std::string stopped_by_;
};

}  // namespace harmonics::inline in_schedule
