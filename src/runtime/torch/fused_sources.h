// The CUDA source of the fused layers (private to runtime).
#pragma once

#include <string_view>

namespace harmonics::inline in_runtime {

/// 16-bit numbers, eight at a time, and sums over the rows of a table; every program begins with
/// it. HALF: fp16 instead of bf16.
extern const std::string_view kEightsSource;
/// Batch norm over {rows, channels}, with RELU the activation too; sum and ReLU.
extern const std::string_view kBatchNormSource;
/// Layer norm over rows of WIDTH numbers, one warp a row. WIDE: the rows come as float32.
extern const std::string_view kLayerNormSource;
/// What a linear layer's bias learns, after GELU too.
extern const std::string_view kLinearSource;

}  // namespace harmonics::inline in_runtime
