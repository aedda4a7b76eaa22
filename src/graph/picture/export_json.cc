#include <harmonics/graph/export.h>

namespace harmonics::inline in_graph {

Json to_json(const HarmonicGraph& graph) {
  Json layers = Json::array();
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const LayerNode& layer = graph.layers()[i];
    Json inputs = Json::array();
    for (const std::string& input : layer.inputs) inputs.push(input);
    Json one = Json().set("name", layer.name).set("type", layer.type);
    one.set("activation", layer.activation).set("inputs", std::move(inputs));
    if (graph.resolved()) {
      one.set("shape", graph.shape_text_of(layer.name)).set("flops", graph.layer_shape(i).flops);
    }
    layers.push(std::move(one));
  }
  Json inputs = Json::array();
  for (const ProducerNode& node : graph.producers()) inputs.push(node.name);
  Json outputs = Json::array();
  for (const ConsumerNode& node : graph.consumers()) {
    outputs.push(Json().set("name", node.name).set("input", node.input));
  }
  Json json = Json().set("name", graph.name()).set("inputs", std::move(inputs));
  return json.set("layers", std::move(layers)).set("outputs", std::move(outputs));
}

}  // namespace harmonics::inline in_graph
