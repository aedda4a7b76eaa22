// Where a tensor is made and where it is used, in graph order (private to graph). Cutting and the
// sizes of cuts both follow from this one table.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

/// One use of a tensor: an input edge of a layer, or an operand of a tap.
struct TensorUse {
  /// The using layer; for a tap its tap_position.
  std::size_t layer = 0;
  /// A gradient comes back from this use: it leads to a loss, and the tensor takes gradients.
  bool gradient = false;
};

struct TensorLife {
  std::string_view name;
  /// The layer itself; for a producer the first layer that uses it (0 when none does).
  std::size_t owner = 0;
  /// In no particular order; a layer that takes the tensor twice stands here twice.
  std::vector<TensorUse> uses;
};

/// The layer that a tap stands right behind: the later of its operands' layers, 0 when both
/// operands are producers.
[[nodiscard]] std::size_t tap_position(const HarmonicGraph& graph, const TrainingTap& tap);

/// By layer: whether its output reaches a loss, as a prediction, through a layer that does, or
/// through a boundary on which gradients come back.
[[nodiscard]] std::vector<bool> layers_that_learn(const HarmonicGraph& graph);

/// One entry per tensor: the producers, then the layers, each in the graph's order. Names point
/// into `graph`, which must be resolved and outlive the answer.
[[nodiscard]] std::vector<TensorLife> tensor_lives(const HarmonicGraph& graph);

/// Throws the Error of an unresolved graph; `action` completes "cannot be …".
void require_resolved(const HarmonicGraph& graph, std::string_view action);

}  // namespace harmonics::inline in_graph
