// Cutting a graph into parts that compute together what the whole computes, bit for bit.
//
// Parts are runs of graph order, so no path leaves a part and comes back. What holds for every cut:
// - Each layer lives in exactly one part, with its activation. Parameters keep their names.
// - A tensor that another part uses is sent there once, straight from the part that owns it. The
//   boundary is called "<tensor>@<receiving part>": a consumer of that name in the owner, a
//   producer of that name in the receiver, whose layers and taps use it. (When an earlier cut of
//   the same graph has taken the name, the number of parts is added to the number until it is
//   free.)
// - A producer lives in the first part that uses it (the first part of all when nobody does) and
//   crosses from there like any other tensor. A consumer lives with its input. A tap lives in the
//   last part that holds one of its operands' layers.
// - `gradient_slots` of both ends of a boundary is the number of gradients that come back over it:
// one
//   per use in the receiving part that leads to a loss, there or in a later part. A use is an input
//   edge of a layer (`x, x -> add` has two) or a tap's prediction. The data of a producer takes no
//   gradient, and neither does a tap's target or a tensor of integers.
// - Gradients are summed in graph order. In a part, the uses of a tensor stand in this order:
// layers in
//   graph order, each with its inputs in input order; a tap right behind the later of its operands'
//   layers; then the boundaries in the order of consumers(). The slots of a boundary are the uses
//   of the receiving part in the same order. Walking parts like this gives the order of the uncut
//   graph.
// - Parts stand alone: a linear layer has its `out`, no ratio is left. Part i of "net" is "net_i".
//
// A part can be cut again. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

/// Cuts into `parts` pieces whose largest estimated cost (layer_cost in units.h) is as small as
/// possible. Cuts lie between units (groups stay whole) while there are at least as many units as
/// parts, else between any two layers; tied layers that learn stay in one part while there are
/// places enough elsewhere. A count outside 1..layers is an Error, and so is a graph
/// that is not resolved.
[[nodiscard]] std::vector<HarmonicGraph> partition_graph(const HarmonicGraph& graph,
                                                         std::size_t parts);

/// Cuts where the caller says: part p holds the layers first_layers[p]..first_layers[p + 1] - 1 in
/// graph order. The numbers must begin with 0, rise, and stay below the number of layers, else an
/// Error.
[[nodiscard]] std::vector<HarmonicGraph> cut_graph(const HarmonicGraph& graph,
                                                   std::span<const std::size_t> first_layers);

/// Where to cut for weights.size() parts of unequal strength: first layers for cut_graph, such that
/// the largest (cost of part i) / weights[i] is as small as possible. Same limits as
/// partition_graph; a weight that is not above 0 is an Error.
[[nodiscard]] std::vector<std::size_t> balanced_first_layers(const HarmonicGraph& graph,
                                                             std::span<const double> weights);

}  // namespace harmonics::inline in_graph
