// Where the boxes of a picture go: ranks from top to bottom, few crossings, straight lines.
#pragma once

#include <cstddef>
#include <vector>

#include "export_boxes.h"

namespace harmonics::inline in_graph {

/// A box with its place, or a bend: the point where a long arrow passes a rank.
struct PlacedBox {
  /// Index in BoxGraph::boxes, or that of no box for a bend.
  std::size_t box = kBend;
  std::size_t rank = 0;
  double x = 0;  ///< centre
  double y = 0;  ///< top
  double width = 0;
  double height = 0;

  static constexpr std::size_t kBend = static_cast<std::size_t>(-1);
  [[nodiscard]] bool is_bend() const { return box == kBend; }
  [[nodiscard]] double left() const { return x - width / 2; }
  [[nodiscard]] double right() const { return x + width / 2; }
  [[nodiscard]] double bottom() const { return y + height; }
};

/// A arrow as the places (indices in Layout::places) that it passes, both ends included.
struct PlacedArrow {
  std::size_t arrow = 0;
  std::vector<std::size_t> path;
};

struct Layout {
  /// The boxes in their order, then the bends.
  std::vector<PlacedBox> places;
  std::vector<PlacedArrow> arrows;
  /// Places of each rank from left to right.
  std::vector<std::vector<std::size_t>> ranks;
  double width = 0;
  double height = 0;
};

struct BoxSize {
  double width = 0;
  double height = 0;
};

/// Gives every box a place; `sizes` belongs to `drawn.boxes`. Deterministic. More than kMaxSvgBoxes
/// places are an Error (kResourceExhausted).
[[nodiscard]] Layout lay_out(const BoxGraph& drawn, const std::vector<BoxSize>& sizes);

}  // namespace harmonics::inline in_graph
