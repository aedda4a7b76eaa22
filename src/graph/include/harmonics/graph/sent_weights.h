// Parameters that travel between the parts of a cut: what a tied layer takes of its owner's part.
#pragma once

#include <algorithm>
#include <string_view>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

/// Whether the producer brings a parameter, one for all samples, and no sample's tensor.
[[nodiscard]] inline bool brings_weight(const HarmonicGraph& part, std::string_view producer) {
  for (std::size_t i = 0; i < part.layers().size(); ++i) {
    if (part.layer_shape(i).given_weight >= 0 && part.layers()[i].inputs.back() == producer) {
      return true;
    }
  }
  return false;
}

/// Whether the layer's output is a parameter that goes to another part.
[[nodiscard]] inline bool sends_weight(const LayerNode& layer) { return layer.type == "weight"; }

/// The same for a tensor by its name.
[[nodiscard]] inline bool is_sent_weight(const HarmonicGraph& part, std::string_view tensor) {
  const auto layer = part.layer_index(tensor);
  return layer ? sends_weight(part.layers()[*layer]) : brings_weight(part, tensor);
}

}  // namespace harmonics::inline in_graph
