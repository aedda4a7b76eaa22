// What a part of a graph keeps in memory, computed from its shapes. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_place {

enum class ProfileMode { kInference, kTraining };

/// "inference", "training".
[[nodiscard]] std::string_view profile_mode_name(ProfileMode mode);

/// What training keeps besides weights.
struct TrainingMemory {
  /// Numbers that the optimiser keeps per trainable number: 2 for Adam, 1 for SGD with momentum.
  int optimizer_slots = 2;
  /// Micro-batches whose forward pass is done and whose backward pass is not: under 1F1B at most as
  /// many as the pipeline has stages, counted from this one to its end.
  int in_flight = 4;
};
inline constexpr int kMaxOptimizerSlots = 16;
inline constexpr int kMaxInFlight = 4'096;

/// Bytes of one unit.
struct UnitMemory {
  /// Parameters and buffers.
  std::int64_t weights = 0;
  /// Training only.
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  /// Inference: the most that is alive at any moment of a pass. Training: what all micro-batches in
  /// flight keep for their backward passes.
  std::int64_t activations = 0;
  /// Training only: what one micro-batch in flight keeps, without what enters (the unit before made
  /// that); and what a pass takes besides for moments. Neither is part of the total.
  std::int64_t kept = 0;
  std::int64_t scratch = 0;

  [[nodiscard]] std::int64_t total() const { return weights + gradients + optimizer + activations; }
  bool operator==(const UnitMemory&) const = default;
};

/// The producers whose tensors a part needs; those that only taps use as targets in training only.
[[nodiscard]] std::vector<std::string> entering_tensors(const HarmonicGraph& part,
                                                        ProfileMode mode);
/// Their bytes per sample.
[[nodiscard]] std::int64_t entering_bytes(const HarmonicGraph& part, ProfileMode mode);

/// The most bytes of tensors that a forward pass over one sample has alive at once: a tensor lives
/// from where it enters or is made to its last use, what leaves the part to the end. A layer with
/// an activation holds its output twice while that is applied.
[[nodiscard]] std::int64_t peak_activation_bytes(const HarmonicGraph& part);

/// Bytes of all tensors that training keeps from the forward pass over one sample: what enters, and
/// each layer's output, before and after its activation.
[[nodiscard]] std::int64_t kept_activation_bytes(const HarmonicGraph& part);

/// The largest parameter: so much an update, or the drawing of start values, takes for moments.
[[nodiscard]] std::int64_t largest_parameter_bytes(const HarmonicGraph& part);

/// The memory of a part for micro-batches of `batch` samples. `training` counts in training only.
[[nodiscard]] UnitMemory part_memory(const HarmonicGraph& part, ProfileMode mode,
                                     std::int64_t batch, const TrainingMemory& training);

}  // namespace harmonics::inline in_place
