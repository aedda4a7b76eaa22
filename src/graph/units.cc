#include <harmonics/graph/units.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include <harmonics/base/error.h>

#include "builtin/shared_attributes.h"
#include "tensor_life.h"

namespace harmonics::inline in_graph {
namespace {

std::int64_t trainable_elements(const LayerShape& shape) {
  std::int64_t count = 0;
  for (const ParameterSpec& parameter : shape.parameters) {
    const bool elsewhere = !parameter.tied_to.empty() && !parameter.away;
    if (parameter.trainable && !elsewhere) count += element_count(parameter.shape);
  }
  return count;
}

// Sum over a set of tensors, each counted once.
std::int64_t total_elements(const HarmonicGraph& graph, const std::set<std::string_view>& tensors) {
  std::int64_t total = 0;
  for (const std::string_view tensor : tensors) total += element_count(graph.spec(tensor).shape);
  return total;
}

std::vector<std::size_t> units_of_layers(const std::vector<Unit>& units, std::size_t layers) {
  std::vector<std::size_t> unit_of(layers);
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t i = units[u].first_layer; i <= units[u].last_layer; ++i) unit_of[i] = u;
  }
  return unit_of;
}

}  // namespace

std::vector<Unit> graph_units(const HarmonicGraph& graph) {
  require_resolved(graph, "split into units");
  std::vector<Unit> units;
  std::set<std::string_view> groups;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const LayerNode& layer = graph.layers()[i];
    const bool grouped = !layer.group.empty();
    if (!grouped || i == 0 || graph.layers()[i - 1].group != layer.group) {
      if (grouped && !groups.insert(layer.group).second) {
        fail(ErrorCode::kInvalidArgument,
             "group '{}' is not in one piece: '{}' belongs to it, but '{}' right before it does "
             "not; "
             "declare the group's layers one after another, behind everything they use",
             layer.group, layer.name, graph.layers()[i - 1].name);
      }
      units.push_back({grouped ? layer.group : layer.name, i, i, 0, 0});
    }
    Unit& unit = units.back();
    unit.last_layer = i;
    unit.flops += graph.layer_shape(i).flops;
    unit.parameters += trainable_elements(graph.layer_shape(i));
  }
  return units;
}

double layer_cost(const HarmonicGraph& graph, std::size_t layer) {
  require_resolved(graph, "costed");
  return graph.layer_shape(layer).flops + kLayerOverheadFlops;
}

std::int64_t input_elements(const HarmonicGraph& graph) {
  require_resolved(graph, "measured");
  std::set<std::string_view> used;
  for (const LayerNode& layer : graph.layers()) {
    for (const std::string& input : layer.inputs) {
      if (!graph.layer_index(input)) used.insert(input);
    }
  }
  return total_elements(graph, used);
}

std::vector<std::int64_t> crossing_elements(const HarmonicGraph& graph) {
  const std::vector<Unit> units = graph_units(graph);
  if (units.empty()) return {};
  const std::vector<std::size_t> unit_of = units_of_layers(units, graph.layers().size());
  // What begins (+) and ends (-) to be alive after each unit; its running sum is the answer.
  std::vector<std::int64_t> crossing(units.size(), 0);
  for (const TensorLife& life : tensor_lives(graph)) {
    std::size_t last = life.owner;
    for (const TensorUse& use : life.uses) last = std::max(last, use.layer);
    const std::int64_t size = element_count(graph.spec(life.name).shape);
    crossing[unit_of[life.owner]] += size;
    crossing[unit_of[last]] -= size;
  }
  for (std::size_t u = 1; u < units.size(); ++u) crossing[u] += crossing[u - 1];
  std::set<std::string_view> leaving;
  for (const ConsumerNode& consumer : graph.consumers()) leaving.insert(consumer.input);
  crossing.back() = total_elements(graph, leaving);
  return crossing;
}

std::vector<HandOver> unit_hand_overs(const HarmonicGraph& graph) {
  const std::vector<Unit> units = graph_units(graph);
  const std::vector<std::size_t> unit_of = units_of_layers(units, graph.layers().size());
  std::vector<HandOver> result;
  for (const TensorLife& life : tensor_lives(graph)) {
    if (life.uses.empty()) continue;
    const std::size_t from = unit_of[life.owner];
    std::set<std::size_t> to;
    for (const TensorUse& use : life.uses) to.insert(unit_of[use.layer]);
    to.erase(from);
    if (to.empty()) continue;
    result.push_back({from, {to.begin(), to.end()}, element_count(graph.spec(life.name).shape)});
  }
  return result;
}

std::vector<std::int64_t> tied_elements(const HarmonicGraph& graph) {
  const std::vector<Unit> units = graph_units(graph);
  std::vector<std::int64_t> crossing(units.size(), 0);
  const std::vector<bool> learns = layers_that_learn(graph);
  if (std::ranges::find(learns, true) == learns.end()) return crossing;
  std::map<std::size_t, std::set<std::size_t>> uses;  // of each owner, itself among them
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const auto owner = tie_owner(graph, i);
    if (owner && !is_frozen(graph.layers()[*owner])) uses[*owner].insert({*owner, i});
  }
  const std::vector<std::size_t> unit_of = units_of_layers(units, graph.layers().size());
  for (const auto& [owner, layers] : uses) {
    const auto& own = graph.layer_shape(owner).parameters;
    const auto weight = std::ranges::find(own, "weight", &ParameterSpec::name);
    const std::size_t home = unit_of[*layers.begin()];
    for (const std::size_t layer : layers) {
      for (std::size_t u = home; u < unit_of[layer]; ++u) {
        crossing[u] += element_count(weight->shape);
      }
    }
  }
  return crossing;
}

}  // namespace harmonics::inline in_graph
