// Graphs as bytes: how partitions are shipped. docs/formats/graph_blob.md is the reference.
#pragma once

#include <cstdint>

#include <harmonics/base/bytes.h>
#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

/// The version that encode_graph writes. decode_graph reads this and the next.
inline constexpr std::uint16_t kGraphBlobVersion = 1;
/// The version of graphs with named axes, and of no others.
inline constexpr std::uint16_t kGraphBlobAxesVersion = 2;

/// The same graph always gives the same bytes, resolved or not.
[[nodiscard]] Bytes encode_graph(const HarmonicGraph& graph);

/// decode_graph(encode_graph(g)) == g. The bytes may come from anywhere: every count is checked
/// before memory is taken, and the graph is validated like one from a builder. Damaged, cut off or
/// overlong bytes are an Error (kDataLoss) with the offset, another version is kUnimplemented, a
/// graph that does not hold together (or uses layers that this program lacks) is what
/// GraphBuilder::build throws.
[[nodiscard]] HarmonicGraph decode_graph(ByteSpan bytes);

}  // namespace harmonics::inline in_graph
