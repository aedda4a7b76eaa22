// In which order a stage of a pipeline works on the micro-batches of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace harmonics::inline in_plan {

/// All three give the same answer bit for bit; they differ in speed and memory.
enum class PipelineOrder {
  /// A micro-batch passes all parts, forward and back, before the next one starts. One thread.
  Sequential,
  /// Each part goes backward as soon as it may ("1F1B"): a part holds no more micro-batches than
  /// there are parts from it to the end.
  OneForwardOneBackward,
  /// All micro-batches forward, then all backward: a part holds all of them.
  GPipe,
};

/// "sequential", "1f1b", "gpipe"; another name is an Error that lists them.
[[nodiscard]] PipelineOrder pipeline_order_from_name(std::string_view name);
[[nodiscard]] std::string_view pipeline_order_name(PipelineOrder order);

/// The most micro-batches that a part holds at once: their forward pass is done, their backward
/// pass is not. `depth` counts the parts from this one to the last, both included.
[[nodiscard]] std::size_t most_in_flight(PipelineOrder order, std::uint32_t micro_batches,
                                         std::size_t depth);

/// One visit of a micro-batch to a stage.
struct Pass {
  enum class Direction : std::uint8_t { kForward, kBackward };
  Direction direction = Direction::kForward;
  std::uint32_t micro_batch = 0;
  bool operator==(const Pass&) const = default;
};

/// The passes of one stage in order; `depth` counts the parts from this one to the last, both
/// included (the last has depth 1). Forward and backward passes each come in the order of the
/// micro-batches.
[[nodiscard]] std::vector<Pass> pipeline_passes(PipelineOrder order, std::uint32_t micro_batches,
                                                std::size_t depth);

}  // namespace harmonics::inline in_plan
