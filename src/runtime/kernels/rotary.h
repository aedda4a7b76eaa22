// Rotary positions (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>

#include <harmonics/graph/layer_type.h>

namespace harmonics::inline in_runtime {

/// The turns per token of each pair of an attention's head: float32 {pairs}; undefined for
/// rope=none.
///
/// Computed in float32 in the order of Hugging Face's modeling_rope_utils (4.44), whose bits it
/// gives: theta to the power of (2i / dims), its reciprocal, then `linear` or `llama3` scaling.
[[nodiscard]] at::Tensor rotary_frequencies(const LayerQuery& query);

/// The cosine and sine {length, dims} of places 0 … length-1.
struct RotaryTurns {
  at::Tensor cosine, sine;
};
[[nodiscard]] RotaryTurns rotary_turns(const at::Tensor& frequencies, std::int64_t length,
                                       const at::Tensor& like);

/// x·cos + turned(x)·sin over the first dims of {batch, heads, length, head_dim}, where turned
/// swaps the halves and negates the first; the other dims stay.
[[nodiscard]] at::Tensor rotated(const at::Tensor& x, const RotaryTurns& turns);

}  // namespace harmonics::inline in_runtime
