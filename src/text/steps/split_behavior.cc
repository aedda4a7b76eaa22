#include "split_behavior.h"

#include <algorithm>

namespace harmonics::inline in_text {
namespace {

// Each match joins the stretch before it, unless that is a match too.
std::vector<Span> merged_with_previous(const std::vector<Stretch>& stretches) {
  std::vector<Span> out;
  bool after_match = false;
  for (const Stretch& stretch : stretches) {
    if (stretch.match && !after_match && !out.empty()) {
      out.back().end = stretch.span.end;
    } else {
      out.push_back(stretch.span);
    }
    after_match = stretch.match;
  }
  return out;
}

std::vector<Span> merged_with_next(const std::vector<Stretch>& stretches) {
  std::vector<Span> out;
  bool before_match = false;
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
    if (stretch->match && !before_match && !out.empty()) {
      out.back().begin = stretch->span.begin;
    } else {
      out.push_back(stretch->span);
    }
    before_match = stretch->match;
  }
  std::ranges::reverse(out);
  return out;
}

std::vector<Span> contiguous(const std::vector<Stretch>& stretches) {
  std::vector<Span> out;
  bool last = false;
  for (const Stretch& stretch : stretches) {
    if (stretch.match == last && !out.empty()) {
      out.back().end = stretch.span.end;
    } else {
      out.push_back(stretch.span);
    }
    last = stretch.match;
  }
  return out;
}

std::vector<Span> isolated(const std::vector<Stretch>& stretches, bool with_matches) {
  std::vector<Span> out;
  for (const Stretch& stretch : stretches) {
    if (with_matches || !stretch.match) out.push_back(stretch.span);
  }
  return out;
}

}  // namespace

std::vector<Stretch> stretches_of(Span whole, const std::vector<Span>& matches) {
  std::vector<Stretch> out;
  std::uint32_t at = whole.begin;
  for (const Span match : matches) {
    if (at != match.begin) out.push_back({{at, match.begin}, false});
    out.push_back({match, true});
    at = match.end;
  }
  if (at != whole.end) out.push_back({{at, whole.end}, false});
  return out;
}

void append_pieces(const std::vector<Stretch>& stretches, SplitBehavior behavior,
                   std::vector<Span>& out) {
  std::vector<Span> made;
  switch (behavior) {
    case SplitBehavior::kRemoved: made = isolated(stretches, false); break;
    case SplitBehavior::kIsolated: made = isolated(stretches, true); break;
    case SplitBehavior::kMergedWithPrevious: made = merged_with_previous(stretches); break;
    case SplitBehavior::kMergedWithNext: made = merged_with_next(stretches); break;
    case SplitBehavior::kContiguous: made = contiguous(stretches); break;
  }
  std::ranges::copy_if(made, std::back_inserter(out), [](Span span) { return span.size() > 0; });
}

}  // namespace harmonics::inline in_text
