// Where to cut for unlike devices whose memory has a ceiling (private to place).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/place/place.h>

namespace harmonics::inline in_place {

/// First layers for cut_graph: among the cuts whose parts keep within `limits`, one that makes the
/// largest (estimated cost) / weight as small as possible. Errors as auto_partition says.
[[nodiscard]] std::vector<std::size_t> limited_first_layers(const HarmonicGraph& graph,
                                                            std::span<const double> weights,
                                                            const PartitionLimits& limits);

/// Bytes that the layers [first, end) need as one part, much as part_memory counts them.
/// `parts_behind` is the number of parts from this one to the last: what 1F1B keeps in flight.
[[nodiscard]] double part_bytes(const HarmonicGraph& graph, std::size_t first, std::size_t end,
                                const PartitionLimits& limits, std::size_t parts_behind);

}  // namespace harmonics::inline in_place
