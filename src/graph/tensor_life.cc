#include "tensor_life.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include <harmonics/base/error.h>

namespace harmonics::inline in_graph {

std::vector<bool> layers_that_learn(const HarmonicGraph& graph) {
  std::vector<bool> learns(graph.layers().size(), false);
  const auto mark = [&](const std::string& tensor) {
    const auto layer = graph.layer_index(tensor);
    if (layer && is_floating(graph.spec(tensor).dtype)) learns[*layer] = true;
  };
  for (const TrainingTap& tap : graph.taps()) mark(tap.prediction);
  for (const ConsumerNode& consumer : graph.consumers()) {
    if (consumer.gradient_slots > 0) mark(consumer.input);
  }
  for (std::size_t i = graph.layers().size(); i-- > 0;) {
    if (!learns[i]) continue;
    for (const std::string& input : graph.layers()[i].inputs) mark(input);
  }
  return learns;
}

namespace {

// A producer's data is given: only a boundary hands gradients on.
bool takes_gradient(const HarmonicGraph& graph, const ProducerNode& producer) {
  return producer.gradient_slots > 0 && is_floating(graph.spec(producer.name).dtype);
}

}  // namespace

std::size_t tap_position(const HarmonicGraph& graph, const TrainingTap& tap) {
  return std::max(graph.layer_index(tap.prediction).value_or(0),
                  graph.layer_index(tap.target).value_or(0));
}

std::vector<TensorLife> tensor_lives(const HarmonicGraph& graph) {
  const std::size_t producers = graph.producers().size();
  std::vector<TensorLife> lives(producers + graph.layers().size());
  std::vector<bool> takes(lives.size(), false);
  std::map<std::string_view, std::size_t> ids;
  for (std::size_t i = 0; i < producers; ++i) {
    lives[i].name = graph.producers()[i].name;
    takes[i] = takes_gradient(graph, graph.producers()[i]);
  }
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    lives[producers + i] = {graph.layers()[i].name, i, {}};
    takes[producers + i] = is_floating(graph.layer_shape(i).output.dtype);
  }
  for (std::size_t i = 0; i < lives.size(); ++i) ids.emplace(lives[i].name, i);

  const auto use = [&](const std::string& tensor, std::size_t layer, bool learns) {
    const std::size_t id = ids.at(tensor);
    lives[id].uses.push_back({layer, learns && takes[id]});
  };
  const std::vector<bool> learns = layers_that_learn(graph);
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    for (const std::string& input : graph.layers()[i].inputs) use(input, i, learns[i]);
  }
  for (const TrainingTap& tap : graph.taps()) {
    const std::size_t position = tap_position(graph, tap);
    use(tap.prediction, position, true);
    use(tap.target, position, false);
  }
  for (std::size_t i = 0; i < producers; ++i) {
    const auto first =
        std::min_element(lives[i].uses.begin(), lives[i].uses.end(),
                         [](const TensorUse& a, const TensorUse& b) { return a.layer < b.layer; });
    if (first != lives[i].uses.end()) lives[i].owner = first->layer;
  }
  return lives;
}

void require_resolved(const HarmonicGraph& graph, std::string_view action) {
  if (graph.resolved()) return;
  fail(ErrorCode::kFailedPrecondition,
       "graph '{}' cannot be {}: the shape of producer '{}' is not known yet; declare it or bind "
       "data "
       "first",
       graph.name(), action, graph.unresolved().front());
}

}  // namespace harmonics::inline in_graph
