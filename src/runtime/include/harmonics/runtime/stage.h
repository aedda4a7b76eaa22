// Stage: one graph, or one part of it, with its weights, ready to compute micro-batches.
//
// The level below CycleRuntime and the schedulers: it knows no data source, no epoch and no other
// part. Boundary tensors go in and out by name; gradients travel the same boundaries backwards.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/custody/digest.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_runtime {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

class StageBackend;

/// Which slice of which batch is being computed. Chance and loss depend on these numbers alone.
struct MicroBatch {
  std::uint64_t step = 0;
  /// Number within the batch; also the key under which a stage keeps it until its backward pass.
  std::uint32_t index = 0;
  /// Position of its first row in the batch.
  std::int64_t first_sample = 0;
  /// Rows of the whole batch: every sample weighs 1/batch_samples in the loss.
  std::int64_t batch_samples = 0;
};

/// What the taps of a stage saw. Sums, so that reports of slices and parts add up.
struct TapReport {
  double loss_sum = 0;
  /// Predictions judged right or wrong (cross_entropy taps) and how many were right.
  std::int64_t judged = 0;
  std::int64_t correct = 0;

  TapReport& operator+=(const TapReport& other);
};

/// One optimiser update.
struct Update {
  double learning_rate = 0;
  /// Every gradient is multiplied by this first (clipping, loss scaling).
  double gradient_factor = 1;
  /// How many updates came before this one.
  std::int64_t updates_before = 0;
};

/// Owns weights and optimiser state. One thread at a time; several stages may run in several
/// threads. Start weights depend on seed and parameter name alone. Inputs of another shape or dtype
/// than the graph says, or missing ones, are an Error that names them.
class Stage {
 public:
  /// The graph must be resolved.
  Stage(HarmonicGraph graph, const RuntimeOptions& options);
  ~Stage();
  Stage(Stage&&) noexcept;
  Stage& operator=(Stage&&) noexcept;

  [[nodiscard]] const HarmonicGraph& graph() const;
  /// What computes this stage.
  [[nodiscard]] const StageBackend& backend() const { return *backend_; }
  /// Full precision, bf16 or fp16, after `auto` has been decided.
  [[nodiscard]] PrecisionPolicy precision() const;

  /// Outputs of all consumers in evaluation mode; targets of taps are not needed.
  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs);
  /// The same, and what the taps say.
  [[nodiscard]] NamedTensors evaluate(const NamedTensors& inputs, TapReport& report);

  /// Training: computes a micro-batch and keeps what its backward pass needs.
  [[nodiscard]] NamedTensors forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                     TapReport& report);
  /// Adds this micro-batch's gradients to those of the parameters. `gradients` holds, for every
  /// consumer with gradient slots, one tensor {slots, batch, …}; the answer holds the same for
  /// every producer with gradient slots. The losses are multiplied by `loss_scale`.
  [[nodiscard]] NamedTensors backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                                      double loss_scale = 1.0);

  /// Sum of squares of each parameter's gradient in float64, by parameter name.
  [[nodiscard]] std::map<std::string, double> gradient_square_sums() const;
  /// Changes the weights and sets the gradients to zero.
  void update(const Update& update);
  /// Sets the gradients to zero and forgets micro-batches in flight.
  void reset();
  /// The first layer (or producer) whose values in a micro-batch in flight are not finite, or "".
  [[nodiscard]] std::string first_non_finite() const;

  /// All parameters and buffers, by full name. They share the stage's memory: use or copy them
  /// before the next update.
  [[nodiscard]] NamedTensors parameters() const;
  /// Optimiser state by "<parameter>.<slot>", likewise.
  [[nodiscard]] NamedTensors optimizer_state() const;
  /// Copies values in. Names that this stage does not own are ignored; a missing parameter (or,
  /// once updates were made, a missing optimiser slot) or another shape is an Error that names it.
  void set_parameters(const NamedTensors& values);
  void set_optimizer_state(const NamedTensors& values, std::int64_t updates_made);
  /// From now on learns by this rule, with the chance of this seed. The optimiser's state is
  /// dropped; its rate is that of each update.
  void set_learning(const OptimizerOptions& optimizer, std::uint64_t seed);
  /// Copies of the gradients by parameter name; zero or absent after update() or reset(). A
  /// parameter that no loss has reached yet has none.
  [[nodiscard]] NamedTensors gradients() const;
  /// Replaces the gradients of these parameters. Another shape is an Error that names it; names
  /// that this stage does not train are ignored.
  void set_gradients(const NamedTensors& values);
  /// Copies of what is saved but not trained, such as running statistics.
  [[nodiscard]] NamedTensors buffers() const;
  /// Replaces those of these names, likewise.
  void set_buffers(const NamedTensors& values);

 private:
  std::unique_ptr<StageBackend> backend_;
};

/// SHA-256 over name, dtype, shape and little-endian bytes of all tensors in name order: equal
/// exactly when two sets of weights are.
[[nodiscard]] Digest weights_root(const NamedTensors& weights);
/// The same as 64 hexadecimal digits.
[[nodiscard]] std::string weights_digest(const NamedTensors& weights);

}  // namespace harmonics::inline in_runtime
