// Pictures of graphs.
#pragma once

#include <cstddef>
#include <string>

#include <harmonics/base/json.h>
#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

/// Boxes that a drawing may hold; a connection that skips over n ranks counts n of them.
inline constexpr std::size_t kMaxSvgBoxes = 20'000;

/// The graph for Graphviz (`dot -Tsvg`): one node per producer, layer, consumer and loss, one
/// cluster per group. A layer's box says what it computes in order: "linear, then relu".
[[nodiscard]] std::string to_dot(const HarmonicGraph& graph);

/// The graph as a finished SVG picture, laid out here: data flows from top to bottom, one row per
/// rank. Boxes show name, type, output shape and parameters; shapes are left out while the graph is
/// unresolved. A graph with more than kMaxSvgBoxes is an Error (kResourceExhausted).
[[nodiscard]] std::string to_svg(const HarmonicGraph& graph);

/// What a picture is drawn from: {"name", "inputs": [name], "layers": [{"name", "type",
/// "activation", "inputs"}] in graph order, "outputs": [{"name", "input"}]}; layers of a resolved
/// graph have "shape" and "flops" too.
[[nodiscard]] Json to_json(const HarmonicGraph& graph);

}  // namespace harmonics::inline in_graph
