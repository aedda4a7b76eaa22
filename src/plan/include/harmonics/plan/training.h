// What a plan means for a model that learns: the time of a batch and the memory of each stage under
// an order of the micro-batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/plan/pipeline_order.h>
#include <harmonics/plan/placement.h>
#include <harmonics/plan/problem.h>

namespace harmonics::inline in_plan {

/// The most micro-batches of a batch that are planned for.
inline constexpr std::int64_t kMaxPlannedMicroBatches = 65'536;

/// How a batch is to be learnt.
struct TrainingWish {
  PipelineOrder order = PipelineOrder::OneForwardOneBackward;
  std::uint32_t micro_batches = 4;
};

/// Seconds and bytes of a stage; times are those of a micro-batch.
struct TrainedStage {
  double forward_s = 0;
  double backward_s = 0;
  /// The most micro-batches that it holds at once.
  std::size_t in_flight = 1;
  /// With them.
  double memory_bytes = 0;
};

struct PlannedTraining {
  TrainingWish wish;
  /// From the first forward pass of a batch to its last backward pass. Updating the weights comes
  /// on top.
  double batch_s = 0;
  std::vector<TrainedStage> stages;

  /// Of a micro-batch.
  [[nodiscard]] double period_s() const { return batch_s / wish.micro_batches; }
};

/// Whether all hosts were measured for training, forward and backward passes apart.
[[nodiscard]] bool is_trained(const PlanProblem& problem);

/// What a stage holds with so many micro-batches in flight: weights, gradients and the optimiser's
/// state; what each micro-batch keeps and what entered with it (in the first stage a whole batch
/// has); the largest scratch of a layer; and three messages at each end. The problem `is_trained`.
[[nodiscard]] double trained_memory_bytes(const PlanProblem& problem, const PlacedStage& stage,
                                          const TrainingWish& wish, std::size_t in_flight);

/// Predicts it; hosts of a stage take turns. A problem that is not `is_trained` is an Error
/// (kFailedPrecondition) that says what to measure.
[[nodiscard]] PlannedTraining plan_training(const PlanProblem& problem, const CostOptions& options,
                                            const Placement& placement, const TrainingWish& wish);

/// A line for people, and the same for programs.
[[nodiscard]] std::string training_to_text(const PlannedTraining& training,
                                           std::int64_t batch_size);
[[nodiscard]] Json training_to_json(const PlannedTraining& training);

}  // namespace harmonics::inline in_plan
