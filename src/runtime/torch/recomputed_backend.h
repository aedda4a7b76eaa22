// A stage that keeps little between its passes and computes the rest again (private to runtime).
#pragma once

#include <memory>

#include <harmonics/runtime/stage_backend.h>

namespace harmonics::inline in_runtime {

/// The graph in `stretches` of its layers, at most one a layer, as cut_graph would cut it; 0 takes
/// about the square root of its units. Of a micro-batch in flight it keeps what enters each
/// stretch; the backward pass computes a stretch again before it walks back through it (Chen et
/// al., Training Deep Nets with Sublinear Memory Cost, 2016). The numbers are those of the graph in
/// one piece, since cuts change no bits, chance is counted and running statistics have each batch
/// once.
[[nodiscard]] std::unique_ptr<StageBackend> make_recomputed_backend(const HarmonicGraph& graph,
                                                                    const RuntimeOptions& options,
                                                                    Device device);

}  // namespace harmonics::inline in_runtime
