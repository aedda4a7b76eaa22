// From a HarpTree to a graph: names are looked up, arrows become inputs, activations and taps.
#pragma once

#include "harp_lexer.h"
#include "harp_syntax.h"

namespace harmonics::inline in_graph {

/// Builds the graph. Errors carry the place: the arrow that is wrong or, for what only the builder
/// can find (shapes that do not fit), the line where the layer was declared.
[[nodiscard]] HarmonicGraph bind_harp(const HarpSource& source, HarpTree tree);

}  // namespace harmonics::inline in_graph
