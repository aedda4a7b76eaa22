// Parameters that travel between the parts of a cut: what a tied layer takes of its owner's part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
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

/// What a cut writes into a layer whose part holds and learns a parameter that belongs to a layer
/// of a later part: the attribute of this name is true.
inline constexpr std::string_view kTieHomeMark = "tie_home";

[[nodiscard]] inline bool holds_for_owner(const LayerNode& layer) {
  const auto mark = layer.attributes.find(std::string(kTieHomeMark));
  return mark != layer.attributes.end() && mark->second == Attribute{std::int64_t{1}};
}

/// Whether the layer's output is a parameter that goes to another part.
[[nodiscard]] inline bool sends_weight(const LayerNode& layer) { return layer.type == "weight"; }

/// The same for a tensor by its name.
[[nodiscard]] inline bool is_sent_weight(const HarmonicGraph& part, std::string_view tensor) {
  const auto layer = part.layer_index(tensor);
  return layer ? sends_weight(part.layers()[*layer]) : brings_weight(part, tensor);
}

}  // namespace harmonics::inline in_graph
