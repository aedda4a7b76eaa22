// Which parameters weight decay makes smaller (private to runtime).
#pragma once

#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>

namespace harmonics::inline in_runtime {

/// True for a bias and for the parameters of a norm: what DecayScope::kWeights leaves alone.
[[nodiscard]] inline bool is_bias_or_norm(const LayerNode& layer, const ParameterSpec& parameter) {
  return layer.type.ends_with("_norm") || parameter.name.starts_with("bias") ||
         parameter.name.ends_with(".bias");
}

[[nodiscard]] inline bool decays(DecayScope scope, bool bias_or_norm) {
  return scope == DecayScope::kAll || !bias_or_norm;
}

}  // namespace harmonics::inline in_runtime
