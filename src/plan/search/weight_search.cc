#include "weight_search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>

#include "host_prices.h"
#include "path_search.h"
#include "period_search.h"
#include "weight_bound.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::size_t kWeightWidths[] = {64, 1024, 16384, 65536};

std::vector<double> arc_weights(const StageGraph& graph, const StageWeight& weight) {
  std::vector<double> weights;
  weights.reserve(graph.arcs.size());
  for (std::size_t node = 0; node < graph.nodes(); ++node) {
    for (const StageArc& arc : graph.arcs_of(node)) weights.push_back(weight(graph, node, arc));
  }
  return weights;
}

// The search proper, on a graph that could be built.
void search(const WeightSearchQuestion& question, const StageGraph& graph,
            WeightSearchResult& result, WorkBudget& budget) {
  const std::vector<double> weights = arc_weights(graph, question.weight);
  budget.charge(graph.work + weights.size());
  const std::span<const std::uint16_t> capacity = question.builder.capacity();
  const WeightBound bound = bound_weight({graph, capacity, weights, question.known_weight}, budget);
  if (bound.prices.empty()) return;
  const auto accept = [&](const ArcPath& path, double weight) {
    result.placement = placement_of(graph, path);
    result.weight = weight;
  };
  if (bound.path) accept(*bound.path, bound.path_weight);
  result.bound = std::clamp(bound.bound, 0.0, result.weight);
  result.proven = result.weight <= result.bound + kPriceTolerance * result.weight;

  HostPricing pricing(capacity, budget);
  const Relaxation relaxation = pricing.solve(graph, RelaxationDepth::kBestPrices);
  if (relaxation.prices.empty()) return;
  for (const std::size_t width : kWeightWidths) {
    if (result.proven || budget.exhausted()) return;
    const SearchResult found = search_path({.graph = graph,
                                            .capacity = capacity,
                                            .prices = relaxation.prices,
                                            .width = width,
                                            .weights = weights,
                                            .weight_limit = result.weight,
                                            .weight_prices = bound.prices},
                                           budget);
    if (found.verdict == SearchVerdict::kFound) accept(found.path, found.weight);
    result.proven = found.proven;
    if (result.proven) result.bound = result.weight;
  }
}

}  // namespace

WeightSearchResult find_least_weight(const WeightSearchQuestion& question, WorkBudget& budget) {
  WeightSearchResult result{question.known, question.known_weight, 0, false};
  if (!(question.known_weight > 0)) {
    result.proven = true;
    return result;
  }
  StageGraph graph;
  try {
    graph = question.builder.build(question.graph);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted) throw;
    return result;
  }
  search(question, graph, result, budget);
  return result;
}

}  // namespace harmonics::inline in_plan
