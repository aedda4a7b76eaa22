// Token stages on libtorch: for a GPU, whose weights and cache lie in its memory.
#pragma once

#include <harmonics/runtime/token_stage.h>

namespace harmonics::inline in_runtime {

struct TorchTokenOptions {
  /// A GPU, or the CPU, where the same code is slower than the rows of TokenStage.
  Device device = {};
  /// What weights, cache and rows are kept in: float32, bfloat16 or float16. Packed weights are
  /// unpacked to it. Sums are float32 always.
  DType numbers = DType::kFloat32;
  /// The bits of a row depend on its own sequence alone, as those of a stage on the CPU do: sums
  /// have one order whatever else is computed. Prompts take longer for it.
  bool deterministic = false;
  /// Kernels of our own, and calls that are launched as a whole; without either, libtorch's own
  /// kernels one by one. Where there is no GPU, there are none.
  bool fused = true;
  bool recorded = true;
};

/// A stage as TokenStage describes, but for its bits: where `deterministic` is not asked for, they
/// depend on how many rows a call has. Its cache is taken at once, all of `cache_bytes` of it or
/// as much as the longest sequences fill; memory that the device does not have is an Error
/// (kResourceExhausted). An encoder (`whole`) is an Error (kUnimplemented).
[[nodiscard]] TokenStage make_torch_token_stage(const HarmonicGraph& graph,
                                                const WeightSource& weights,
                                                const TokenStageOptions& options,
                                                const TorchTokenOptions& torch);

}  // namespace harmonics::inline in_runtime
