// Attributes that every layer takes (private to graph): `trainable=false` freezes its parameters,
// `tie=other.weight` makes its `weight` the parameter of another layer.
//
// In a part of a cut graph whose owner of the parameter lives elsewhere, the tie reads
// "other.weight@<part>", and `tie_start` says how the owner draws its start values. Where the owner
// learns, `tie_input` says that the parameter comes as the layer's last input, over a boundary that
// takes its gradient back; a layer of type `weight` sends it. Where the layer that names such a
// parameter lives in a later part than another that uses it, `tie_home` says that the earliest part
// holds and learns it: the later one, the layer that names it included, takes it from there.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

[[nodiscard]] bool is_shared_attribute(std::string_view name);

/// Throws an Error that names the layer unless these attributes have values of their kind.
void check_shared_attributes(const LayerNode& layer);

/// The layer that owns the parameter to which layer number `index` is tied; nothing for a layer
/// that is not tied, or whose owner lives in another part already.
[[nodiscard]] std::optional<std::size_t> tie_owner(const HarmonicGraph& graph, std::size_t index);

/// Makes `layer`, a copy of number `index`, hold its tied parameter itself: its owner goes to
/// `part`.
void mark_tie_away(const HarmonicGraph& graph, std::size_t index, std::size_t part,
                   LayerNode& layer);

/// Makes `layer`, which mark_tie_away has marked, the one whose part learns the parameter.
void make_tie_home(LayerNode& layer);

/// Whether the last input of the layer is its weight.
[[nodiscard]] bool takes_weight(const LayerNode& layer);

/// Makes `layer`, which mark_tie_away has marked, take its parameter as its last input.
void take_weight_over(const std::string& boundary, LayerNode& layer);

/// The layer that sends the parameter to which layer number `index` is tied, or which it owns,
/// under that name; `owner_part` is where its owner lives, unless that is the sender's part.
[[nodiscard]] LayerNode weight_sender(const HarmonicGraph& graph, std::size_t index,
                                      const std::string& name,
                                      std::optional<std::size_t> owner_part);

}  // namespace harmonics::inline in_graph
