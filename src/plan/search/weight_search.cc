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

// The graph without the stages that are not wanted.
void keep_allowed(const WeightSearchQuestion& question, StageGraph& graph) {
  if (!question.allows) return;
  std::vector<StageArc> kept;
  std::vector<std::uint32_t> first;
  for (std::size_t node = 0; node < graph.nodes(); ++node) {
    first.push_back(static_cast<std::uint32_t>(kept.size()));
    for (const StageArc& arc : graph.arcs_of(node)) {
      if (question.allows(graph, node, arc)) kept.push_back(arc);
    }
  }
  first.push_back(static_cast<std::uint32_t>(kept.size()));
  graph.arcs = std::move(kept);
  graph.first_arc = std::move(first);
  graph.covers.clear();
}

// The least sum from each node to the end.
std::vector<double> least_to_go(const StageGraph& graph, std::span<const double> weights) {
  std::vector<double> to_go(graph.nodes(), std::numeric_limits<double>::infinity());
  to_go.back() = 0;
  for (std::size_t node = graph.nodes() - 1; node-- > 0;) {
    for (std::uint32_t a = graph.first_arc[node]; a < graph.first_arc[node + 1]; ++a) {
      const auto to = static_cast<std::size_t>(graph.arcs[a].to);
      to_go[node] = std::min(to_go[node], weights[a] + to_go[to]);
    }
  }
  return to_go;
}

double sum_over(const ArcPath& path, std::span<const double> weights) {
  double sum = 0;
  for (const std::uint32_t arc : path) sum += weights[arc];
  return sum;
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
  std::vector<double> limited, limited_to_go;
  if (question.limited) {
    limited = arc_weights(graph, question.limited);
    limited_to_go = least_to_go(graph, limited);
  }
  const bool keeps_limit =
      bound.path &&
      (limited.empty() || sum_over(*bound.path, limited) <= question.limit * (1 + kPriceTolerance));
  if (keeps_limit && bound.path_weight < result.weight) accept(*bound.path, bound.path_weight);
  result.bound = std::clamp(bound.bound, 0.0, result.weight);
  result.proven = result.weight <= result.bound + kPriceTolerance * result.weight;

  HostPricing pricing(capacity, budget);
  const Relaxation relaxation = pricing.solve(graph, RelaxationDepth::kBestPrices);
  if (!relaxation.feasible) {  // there is none at all
    result.bound = result.weight;
    result.proven = true;
  }
  if (relaxation.prices.empty()) return;
  for (const std::size_t width : kWeightWidths) {
    if (result.proven || budget.exhausted()) return;
    const SearchResult found = search_path({.graph = graph,
                                            .capacity = capacity,
                                            .prices = relaxation.prices,
                                            .width = width,
                                            .weights = weights,
                                            .weight_limit = result.weight,
                                            .weight_prices = bound.prices,
                                            .limited = limited,
                                            .limited_to_go = limited_to_go,
                                            .limit = question.limit},
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
  keep_allowed(question, graph);
  search(question, graph, result, budget);
  return result;
}

}  // namespace harmonics::inline in_plan
