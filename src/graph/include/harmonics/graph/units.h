// The smallest pieces that a planner cuts between, what they cost, and what crosses each cut.
//
// All functions are pure, need a resolved graph (else an Error, kFailedPrecondition) and may be
// called from any thread. Sizes are per sample: the batch axis is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

/// What a layer costs besides its arithmetic, in floating-point operations: reading its inputs,
/// calling its kernel. It keeps layers without arithmetic (flatten, concat) from being free.
inline constexpr double kLayerOverheadFlops = 1'000;

/// A group of layers, or one layer that has no group: layers first_layer..last_layer in graph
/// order.
struct Unit {
  /// The group's name, else the layer's.
  std::string name;
  std::size_t first_layer = 0;
  std::size_t last_layer = 0;
  /// Of one forward pass over one sample, without overheads.
  double flops = 0;
  /// Trainable numbers, as in HarmonicGraph::parameter_count.
  std::int64_t parameters = 0;
  bool operator==(const Unit&) const = default;
};

/// The units in graph order; together they hold every layer once. A group whose layers do not stand
/// side by side in graph order is an Error that names it.
[[nodiscard]] std::vector<Unit> graph_units(const HarmonicGraph& graph);

/// Estimated cost of one layer: its flops and kLayerOverheadFlops.
[[nodiscard]] double layer_cost(const HarmonicGraph& graph, std::size_t layer);

/// Elements that enter: every producer that a layer uses, once. Targets that only taps use stay
/// out.
[[nodiscard]] std::int64_t input_elements(const HarmonicGraph& graph);

/// Entry i: elements of all tensors that are alive across the cut after unit i (made or first used
/// up to there, used later), each tensor once. The last entry is what leaves the graph: the
/// consumers' inputs, each once.
[[nodiscard]] std::vector<std::int64_t> crossing_elements(const HarmonicGraph& graph);

/// A tensor that one unit makes (or takes first, where it enters the graph) and others use.
struct HandOver {
  std::size_t from = 0;
  /// Ascending, each once, without `from`; never empty.
  std::vector<std::size_t> to;
  std::int64_t elements = 0;
  bool operator==(const HandOver&) const = default;
};

/// Every tensor that is used outside the unit that makes it, in the graph's order of tensors.
[[nodiscard]] std::vector<HandOver> unit_hand_overs(const HarmonicGraph& graph);

/// Entry i: elements of the tied parameters that a cut after unit i makes travel with every
/// micro-batch, whatever its size: each use behind the cut of a parameter that learns and is used
/// before it takes the tensor when it has changed and sends a gradient back. Zeros where the graph
/// does not learn.
[[nodiscard]] std::vector<std::int64_t> tied_elements(const HarmonicGraph& graph);

}  // namespace harmonics::inline in_graph
