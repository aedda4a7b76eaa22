// What becomes of a text that matches of a pattern divide.
#pragma once

#include <string_view>
#include <vector>

#include "unicode.h"

namespace harmonics::inline in_text {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// A stretch of a text, and whether the pattern matched it.
struct Stretch {
  Span span;
  bool match = false;
};

/// All of `whole`, divided at `matches`, which lie in it from left to right.
[[nodiscard]] std::vector<Stretch> stretches_of(Span whole, const std::vector<Span>& matches);

/// Appends the pieces that `stretches` leave under `behavior`; empty ones are dropped.
void append_pieces(const std::vector<Stretch>& stretches, SplitBehavior behavior,
                   std::vector<Span>& out);

}  // namespace harmonics::inline in_text
