// From a graph with branches and its measurements to an operator graph, for plans that a chain of
// layers cannot have.
#pragma once

#include <harmonics/graph/graph.h>
#include <harmonics/plan/operator_graph.h>
#include <harmonics/plan/problem.h>

namespace harmonics::inline in_place {

/// The units of the graph as operators, with the times, memory and hosts of the problem, and what
/// they hand to each other as tensors. A problem of another number of layers is an Error, and so is
/// one whose tied parameters travel with every micro-batch: an operator graph has no word for that.
/// Pins, links between hosts and shared machines are left out.
[[nodiscard]] OperatorGraph operator_graph_of(const HarmonicGraph& graph,
                                              const PlanProblem& problem);

}  // namespace harmonics::inline in_place
