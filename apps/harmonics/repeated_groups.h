// Groups that repeat: the blocks of a deep network, of which a table shows the first.
#pragma once

#include <cstddef>
#include <vector>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_front {

/// Layers [first, first + size) of a graph, followed by others that are the same `times - 1` times.
struct LayerRun {
  std::size_t first = 0;
  std::size_t size = 0;
  std::size_t times = 1;
};

/// All layers in graph order. A run of more than one round is a group that is followed by five or
/// more with the same types, activations, shapes and parameters; whatever else is a run of one.
[[nodiscard]] std::vector<LayerRun> layer_runs(const HarmonicGraph& graph);

}  // namespace harmonics::inline in_front
