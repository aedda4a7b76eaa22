#include "repeated_groups.h"

namespace harmonics::inline in_front {
namespace {

// A few blocks are as quickly read as one with a note.
constexpr std::size_t kLeastRounds = 6;

// The layers from `first` on that share its group; one where it has none.
std::size_t group_size(const HarmonicGraph& graph, std::size_t first) {
  const std::vector<LayerNode>& layers = graph.layers();
  std::size_t end = first + 1;
  if (layers[first].group.empty()) return 1;
  while (end < layers.size() && layers[end].group == layers[first].group) ++end;
  return end - first;
}

bool is_alike(const HarmonicGraph& graph, std::size_t one, std::size_t other) {
  const LayerNode& a = graph.layers()[one];
  const LayerNode& b = graph.layers()[other];
  if (a.type != b.type || a.activation != b.activation || a.attributes != b.attributes)
    return false;
  return !graph.resolved() || graph.layer_shape(one).output == graph.layer_shape(other).output;
}

bool repeats(const HarmonicGraph& graph, const LayerRun& run, std::size_t at) {
  if (at >= graph.layers().size() || group_size(graph, at) != run.size) return false;
  if (graph.layers()[at].group.empty()) return false;
  for (std::size_t i = 0; i < run.size; ++i) {
    if (!is_alike(graph, run.first + i, at + i)) return false;
  }
  return true;
}

}  // namespace

std::vector<LayerRun> layer_runs(const HarmonicGraph& graph) {
  std::vector<LayerRun> runs;
  for (std::size_t at = 0; at < graph.layers().size();) {
    LayerRun run{at, group_size(graph, at), 1};
    const bool grouped = !graph.layers()[at].group.empty();
    while (grouped && repeats(graph, run, run.first + run.times * run.size)) ++run.times;
    if (run.times < kLeastRounds) run.times = 1;  // the next round begins a run of its own
    at += run.times * run.size;
    runs.push_back(run);
  }
  return runs;
}

}  // namespace harmonics::inline in_front
