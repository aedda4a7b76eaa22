// What a picture of a graph shows, before anything has a place: boxes and arrows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

enum class BoxKind : std::uint8_t { kProducer, kLayer, kConsumer, kLoss };

struct Box {
  BoxKind kind = BoxKind::kLayer;
  std::string title;
  /// Smaller lines below the title: type, activation and shape; parameters.
  std::vector<std::string> details;
  std::string group;
};

/// An arrow between two boxes (indices). Every arrow leads to a later box.
struct Arrow {
  std::size_t from = 0;
  std::size_t to = 0;
  /// From a target to its loss: no gradient flows here.
  bool is_target = false;
};

struct BoxGraph {
  std::vector<Box> boxes;
  std::vector<Arrow> arrows;
};

/// Producers, layers in graph order, consumers, losses. An activation stands in the box that
/// applies it, after the layer itself: "linear, then relu".
[[nodiscard]] BoxGraph boxes_of(const HarmonicGraph& graph);

/// 12345 -> "12,345"
[[nodiscard]] std::string grouped_digits(std::int64_t number);

}  // namespace harmonics::inline in_graph
