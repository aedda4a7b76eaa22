#include <harmonics/graph/partition.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/graph/units.h>

#include "balance.h"
#include "builtin/shared_attributes.h"
#include "tensor_life.h"

namespace harmonics::inline in_graph {
namespace {

/// One cut, from the whole graph to the list of parts.
class Cutter {
 public:
  Cutter(const HarmonicGraph& graph, std::span<const std::size_t> first_layers)
      : graph_(graph), part_of_(graph.layers().size()) {
    for (std::size_t part = 0; part < first_layers.size(); ++part) {
      builders_.emplace_back(format("{}_{}", graph.name(), part));
      const bool last = part + 1 == first_layers.size();
      const std::size_t end = last ? part_of_.size() : first_layers[part + 1];
      for (std::size_t layer = first_layers[part]; layer < end; ++layer) part_of_[layer] = part;
    }
    for (const ProducerNode& producer : graph.producers()) taken_.insert(producer.name);
    for (const ConsumerNode& consumer : graph.consumers()) taken_.insert(consumer.name);
    learns_ = layers_that_learn(graph);
    find_ties();
  }

  std::vector<HarmonicGraph> cut() {
    const std::vector<TensorLife> lives = tensor_lives(graph_);
    for (const TensorLife& life : lives) home_[life.name] = part_of_[life.owner];
    for (const ProducerNode& producer : graph_.producers()) {
      builders_[home_.at(producer.name)].add(producer);
      follow(home_.at(producer.name), producer.extents);
    }
    for (const TensorLife& life : lives) add_boundaries(life);
    add_axes();
    add_layers();
    add_consumers_and_taps();
    std::vector<HarmonicGraph> parts;
    for (const GraphBuilder& builder : builders_) parts.push_back(builder.build());
    return parts;
  }

 private:
  // Both ends of every boundary over which this tensor travels.
  void add_boundaries(const TensorLife& life) {
    std::map<std::size_t, std::uint32_t> slots;  // by receiving part
    for (const TensorUse& use : life.uses) slots[part_of_[use.layer]] += use.gradient ? 1 : 0;
    const std::size_t owner = part_of_[life.owner];
    const TensorSpec& spec = graph_.spec(life.name);
    for (const auto& [part, gradients] : slots) {
      if (part == owner) continue;
      const std::string name = take_boundary_name(life.name, part);
      const NamedExtents& extents = graph_.named_extents(life.name);
      builders_[owner].add(
          ConsumerNode{name, std::string(life.name), {}, spec.shape, gradients, extents});
      builders_[part].add(ProducerNode{name, spec.shape, spec.dtype, gradients, extents});
      follow(part, extents);
      boundaries_[{life.name, part}] = name;
    }
  }

  void follow(std::size_t part, const NamedExtents& extents) {
    for (const NamedExtent& extent : extents) followed_.emplace(part, extent.axis);
  }

  // A part knows the axes that its own producers follow.
  void add_axes() {
    for (std::size_t part = 0; part < builders_.size(); ++part) {
      for (const AxisNode& axis : graph_.axes()) {
        if (followed_.contains({part, axis.name})) builders_[part].add(axis);
      }
    }
  }

  std::string take_boundary_name(std::string_view tensor, std::size_t part) {
    for (std::size_t number = part;; number += builders_.size()) {
      std::string name = format("{}@{}", tensor, number);
      if (taken_.insert(name).second) return name;
    }
  }

  /// What the tensor is called inside a part that uses it.
  std::string local_name(const std::string& tensor, std::size_t part) const {
    const auto boundary = boundaries_.find({tensor, part});
    return boundary == boundaries_.end() ? tensor : boundary->second;
  }

  void add_layers() {
    for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
      LayerNode layer = graph_.layers()[i];
      for (std::string& input : layer.inputs) input = local_name(input, part_of_[i]);
      // Its ratio or its target may live in another part.
      if (layer.type == "linear") layer.attributes["out"] = graph_.full_attributes(i).at("out");
      layer.ratio.reset();
      if (const auto tie = ties_.find(i); tie != ties_.end()) separate_tie(i, tie->second, layer);
      builders_[part_of_[i]].add(std::move(layer));
    }
  }

  // Layers that use a parameter of another part, and who they are tied to.
  struct Tie {
    std::size_t owner = 0;
    std::size_t home = 0;  // the layer whose part holds the parameter
  };

  // A parameter that learns lives in the earliest part that uses it, since passes go from there to
  // later ones; another one every part holds.
  void find_ties() {
    const bool learns = std::ranges::find(learns_, true) != learns_.end();
    std::map<std::size_t, std::vector<std::size_t>> users;  // by owner, in graph order
    for (std::size_t i = 0; i < part_of_.size(); ++i) {
      if (const auto owner = tie_owner(graph_, i)) users[*owner].push_back(i);
    }
    for (const auto& [owner, tied] : users) {
      const bool travels = learns && !is_frozen(graph_.layers()[owner]);
      const bool later = travels && part_of_[tied.front()] < part_of_[owner];
      const std::size_t home = later ? tied.front() : owner;
      for (const std::size_t user : tied) {
        if (part_of_[user] != part_of_[owner] || later) ties_[user] = {owner, home};
      }
      if (later) ties_[owner] = {owner, home};
    }
  }

  // A parameter that learns goes to the other part over a boundary, and its gradient comes back;
  // any other one both parts hold.
  void separate_tie(std::size_t index, const Tie& tie, LayerNode& layer) {
    const std::size_t from = part_of_[tie.home], to = part_of_[index];
    const bool away = tie.home != tie.owner;  // the owner takes it too
    if (from == to) {
      mark_tie_away(graph_, index, part_of_[tie.owner], layer);
      make_tie_home(layer);
      return;
    }
    mark_tie_away(graph_, index, from, layer);
    const bool learns = std::ranges::find(learns_, true) != learns_.end();
    if (!learns || is_frozen(graph_.layers()[tie.owner])) return;
    const LayerNode& tied = graph_.layers()[index];
    const auto weight =
        std::ranges::find(graph_.layer_shape(index).parameters, "weight", &ParameterSpec::name);
    const std::string name = take_boundary_name(parameter_name(tied, *weight), to);
    const TensorSpec spec{weight->shape, graph_.layer_shape(index).output.dtype};
    const std::uint32_t gradients = learns_[index] ? 1 : 0;
    const auto owner_part = away ? std::optional(part_of_[tie.owner]) : std::nullopt;
    builders_[from].add(weight_sender(graph_, index, name, owner_part));
    builders_[from].add(ConsumerNode{name, name, {}, spec.shape, gradients, {}});
    builders_[to].add(ProducerNode{name, spec.shape, spec.dtype, gradients, {}});
    take_weight_over(name, layer);
  }

  void add_consumers_and_taps() {
    for (const ConsumerNode& consumer : graph_.consumers()) {
      builders_[home_.at(consumer.input)].add(consumer);
    }
    for (TrainingTap tap : graph_.taps()) {
      const std::size_t part = part_of_[tap_position(graph_, tap)];
      tap.prediction = local_name(tap.prediction, part);
      tap.target = local_name(tap.target, part);
      builders_[part].add(std::move(tap));
    }
  }

  const HarmonicGraph& graph_;
  std::vector<std::size_t> part_of_;  // by layer
  std::vector<GraphBuilder> builders_;
  std::set<std::string> taken_;      // names that boundaries must not repeat
  std::vector<bool> learns_;         // by layer
  std::map<std::size_t, Tie> ties_;  // by layer
  std::map<std::string_view, std::size_t> home_;
  std::set<std::pair<std::size_t, std::string>> followed_;  // axes by part
  std::map<std::pair<std::string_view, std::size_t>, std::string> boundaries_;
};

// The earlier and the later layer of each tie to an owner that learns.
std::vector<std::pair<std::size_t, std::size_t>> learning_ties(const HarmonicGraph& graph) {
  std::vector<std::pair<std::size_t, std::size_t>> ties;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const auto owner = tie_owner(graph, i);
    if (owner && !is_frozen(graph.layers()[*owner]))
      ties.emplace_back(std::min(i, *owner), std::max(i, *owner));
  }
  return ties;
}

// Where parts may begin: at each unit, or at each layer when there are too few units; where enough
// are left, tied layers stay together.
std::vector<std::size_t> cut_places(const HarmonicGraph& graph, std::size_t parts) {
  std::vector<std::size_t> starts;
  for (const Unit& unit : graph_units(graph)) starts.push_back(unit.first_layer);
  if (parts > starts.size()) {
    starts.resize(graph.layers().size());
    std::iota(starts.begin(), starts.end(), std::size_t{0});
  }
  std::vector<std::size_t> together = starts;
  for (const auto& [first, last] : learning_ties(graph)) {
    std::erase_if(together, [&](std::size_t layer) { return first < layer && layer <= last; });
  }
  return together.size() >= parts ? together : starts;
}

void check_part_count(const HarmonicGraph& graph, std::size_t parts) {
  require_resolved(graph, "cut");
  if (parts >= 1 && parts <= graph.layers().size()) return;
  fail(ErrorCode::kInvalidArgument,
       "graph '{}' with {} layers cannot be cut into {} parts: ask for 1 to {}", graph.name(),
       graph.layers().size(), parts, graph.layers().size());
}

}  // namespace

std::vector<HarmonicGraph> cut_graph(const HarmonicGraph& graph,
                                     std::span<const std::size_t> first_layers) {
  check_part_count(graph, first_layers.size());
  const bool rising = std::adjacent_find(first_layers.begin(), first_layers.end(),
                                         std::greater_equal<>()) == first_layers.end();
  if (first_layers.front() != 0 || !rising || first_layers.back() >= graph.layers().size()) {
    std::string given;
    for (const std::size_t layer : first_layers) given += format(" {}", layer);
    fail(ErrorCode::kInvalidArgument,
         "graph '{}' cannot be cut at the layers{}: begin with 0, then rise, and stay below {}",
         graph.name(), given, graph.layers().size());
  }
  return Cutter(graph, first_layers).cut();
}

std::vector<std::size_t> balanced_first_layers(const HarmonicGraph& graph,
                                               std::span<const double> weights) {
  check_part_count(graph, weights.size());
  for (const double weight : weights) {
    if (!(weight > 0) || !std::isfinite(weight)) {
      fail(ErrorCode::kInvalidArgument, "the weight of a part must be a number above 0, not {}",
           weight);
    }
  }
  const std::vector<std::size_t> starts = cut_places(graph, weights.size());
  std::vector<double> costs(starts.size(), 0.0);
  for (std::size_t layer = 0, piece = 0; layer < graph.layers().size(); ++layer) {
    if (piece + 1 < starts.size() && starts[piece + 1] == layer) ++piece;
    costs[piece] += layer_cost(graph, layer);
  }
  std::vector<std::size_t> first_layers;
  for (const std::size_t piece : balance(costs, weights)) first_layers.push_back(starts[piece]);
  return first_layers;
}

std::vector<HarmonicGraph> partition_graph(const HarmonicGraph& graph, std::size_t parts) {
  check_part_count(graph, parts);
  return cut_graph(graph, balanced_first_layers(graph, std::vector<double>(parts, 1.0)));
}

}  // namespace harmonics::inline in_graph
