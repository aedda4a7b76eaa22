#include <cmath>

#include <harmonics/base/json.h>
#include <harmonics/plan/operator_graph.h>

namespace harmonics::inline in_plan {
namespace {

Json device_json(const OperatorDevice& device) {
  Json hosts = Json::array();
  for (const std::string& host : device.hosts) hosts.push(host);
  Json json = Json::object().set("type", device.type).set("hosts", std::move(hosts));
  if (std::isfinite(device.memory_mb)) json.set("memory_mb", device.memory_mb);
  if (device.pays_transfers()) {
    json.set("bandwidth_mbps", device.bandwidth_mbps);
  } else {
    json.set("pays_transfers", false);
  }
  return json;
}

Json node_json(const OperatorNode& node, const OperatorGraph& graph) {
  Json times = Json::object();
  for (std::size_t d = 0; d < graph.devices.size(); ++d) {
    if (node.time_s[d] != kCannotRun) times.set(graph.devices[d].type, node.time_s[d]);
  }
  Json json = Json::object().set("name", node.name).set("time_s", std::move(times));
  if (node.memory_mb > 0) json.set("memory_mb", node.memory_mb);
  if (!node.colocate.empty()) json.set("colocate", node.colocate);
  if (node.backward) json.set("backward", true);
  return json;
}

// One entry per line, so that people find their way and versions can be compared.
void add_list(std::string& text, std::string_view key, const Json::Array& entries) {
  text += ",\n" + json_quote(key) + ": [";
  std::string_view before = "\n  ";
  for (const Json& entry : entries) {
    text += before;
    text += entry.dump();
    before = ",\n  ";
  }
  text += "\n]";
}

}  // namespace

std::string operator_graph_to_json(const OperatorGraph& graph) {
  Json::Array devices, nodes, edges;
  for (const OperatorDevice& device : graph.devices) devices.push_back(device_json(device));
  for (const OperatorNode& node : graph.nodes) nodes.push_back(node_json(node, graph));
  for (const OperatorTensor& tensor : graph.tensors) {
    Json to = Json::array();
    for (const std::size_t consumer : tensor.consumers) to.push(graph.nodes[consumer].name);
    edges.push_back(Json::object()
                        .set("from", graph.nodes[tensor.producer].name)
                        .set("to", std::move(to))
                        .set("bytes", tensor.bytes));
  }
  std::string text = "{\"name\": " + json_quote(graph.name);
  add_list(text, "devices", devices);
  add_list(text, "nodes", nodes);
  add_list(text, "edges", edges);
  return text + "\n}\n";
}

}  // namespace harmonics::inline in_plan
