#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/plan/cost_model.h>
#include <harmonics/plan/operator_graph.h>

namespace harmonics::inline in_plan {
namespace {

// What transfers of dnn-partitioning run at; their costs are milliseconds at this rate.
constexpr double kAcceleratorMbps = 16384;
constexpr double kSecondsPerMillisecond = 1e-3;

// A value of the file and where it stands there.
class Place {
 public:
  Place(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  [[noreturn]] void broken(std::string_view what) const {
    fail(ErrorCode::kInvalidArgument, "{}: {}", where_, what);
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  Place at(std::string_view key) const {
    const Json* const found = find(key);
    if (found == nullptr) broken(format("'{}' is missing", key));
    return {*found, format("{}.{}", where_, key)};
  }
  void only(std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] :
         guarded([&]() -> const Json::Object& { return json_.as_object(); })) {
      if (std::ranges::find(keys, key) == keys.end()) {
        broken(format("'{}' is unknown here, which has {}", key, listed(keys)));
      }
    }
  }
  std::vector<Place> entries(std::size_t most) const {
    const Json::Array& list = guarded([&]() -> const Json::Array& { return json_.as_array(); });
    if (list.size() > most) broken(format("{} entries, {} are allowed", list.size(), most));
    std::vector<Place> result;
    result.reserve(list.size());
    for (std::size_t k = 0; k < list.size(); ++k) {
      result.emplace_back(list[k], format("{}[{}]", where_, k));
    }
    return result;
  }
  std::vector<std::pair<std::string, Place>> members() const {
    std::vector<std::pair<std::string, Place>> result;
    for (const auto& [key, value] :
         guarded([&]() -> const Json::Object& { return json_.as_object(); })) {
      result.emplace_back(key, Place(value, format("{}.{}", where_, key)));
    }
    return result;
  }
  const std::string& text() const {
    return guarded([&]() -> const std::string& { return json_.as_string(); });
  }
  std::int64_t integer() const {
    return guarded([&] { return json_.as_integer(); });
  }
  double amount() const {
    const double value = guarded([&] { return json_.as_number(); });
    if (!std::isfinite(value) || value < 0) broken("is below 0 or no number");
    return value;
  }
  // Files of others write yes as true, as 1, and within one file as both.
  bool yes() const {
    if (json_.is_integer()) return json_.as_integer() != 0;
    return guarded([&] { return json_.as_bool(); });
  }

 private:
  const Json* find(std::string_view key) const {
    return guarded([&] { return json_.find(key); });
  }
  template <typename Read>
  auto guarded(Read read) const -> decltype(read()) {
    if constexpr (std::is_same_v<decltype(read()), const Json*>) {
      if (!json_.is_object()) broken("is no object");
    }
    try {
      return read();
    } catch (const Error& error) {
      broken(error.what());
    }
  }

  const Json& json_;
  std::string where_;
};

std::size_t node_at(const std::unordered_map<std::string, std::size_t>& number,
                    const Place& place) {
  const auto found = number.find(place.text());
  if (found == number.end()) place.broken(format("there is no node '{}'", place.text()));
  return found->second;
}

OperatorDevice read_device(const Place& place) {
  place.only({"type", "hosts", "memory_mb", "bandwidth_mbps", "pays_transfers"});
  OperatorDevice device;
  device.type = place.at("type").text();
  for (const Place& host : place.at("hosts").entries(kMaxOperatorHosts)) {
    device.hosts.push_back(host.text());
  }
  if (place.has("memory_mb")) device.memory_mb = place.at("memory_mb").amount();
  const bool pays = !place.has("pays_transfers") || place.at("pays_transfers").yes();
  if (pays != place.has("bandwidth_mbps")) {
    place.broken(pays ? "'bandwidth_mbps' is missing (or say \"pays_transfers\": false)"
                      : "'bandwidth_mbps' has no meaning where transfers are not paid for");
  }
  if (pays) device.bandwidth_mbps = place.at("bandwidth_mbps").amount();
  return device;
}

OperatorNode read_node(const Place& place, const OperatorGraph& graph) {
  place.only({"name", "time_s", "memory_mb", "colocate", "backward"});
  OperatorNode node;
  node.name = place.at("name").text();
  node.time_s.assign(graph.devices.size(), kCannotRun);
  for (const auto& [type, time] : place.at("time_s").members()) {
    const auto device = std::ranges::find(graph.devices, type, &OperatorDevice::type);
    if (device == graph.devices.end()) {
      time.broken(format("there is no device type '{}', only {}", type,
                         listed(graph.devices, &OperatorDevice::type)));
    }
    node.time_s[static_cast<std::size_t>(device - graph.devices.begin())] = time.amount();
  }
  if (place.has("memory_mb")) node.memory_mb = place.at("memory_mb").amount();
  if (place.has("colocate")) node.colocate = place.at("colocate").text();
  if (place.has("backward")) node.backward = place.at("backward").yes();
  return node;
}

OperatorGraph read_own(const Place& top) {
  top.only({"name", "devices", "nodes", "edges"});
  OperatorGraph graph;
  if (top.has("name")) graph.name = top.at("name").text();
  for (const Place& device : top.at("devices").entries(kMaxOperatorDevices)) {
    graph.devices.push_back(read_device(device));
  }
  std::unordered_map<std::string, std::size_t> number;
  for (const Place& place : top.at("nodes").entries(kMaxOperators)) {
    graph.nodes.push_back(read_node(place, graph));
    if (!number.emplace(graph.nodes.back().name, graph.nodes.size() - 1).second) {
      place.broken(format("node '{}' is there twice", graph.nodes.back().name));
    }
  }
  for (const Place& edge : top.at("edges").entries(kMaxOperatorEdges)) {
    edge.only({"from", "to", "bytes"});
    OperatorTensor tensor{node_at(number, edge.at("from")), {}, edge.at("bytes").amount()};
    for (const Place& to : edge.at("to").entries(kMaxOperators)) {
      tensor.consumers.push_back(node_at(number, to));
    }
    std::ranges::sort(tensor.consumers);
    if (std::ranges::adjacent_find(tensor.consumers) != tensor.consumers.end()) {
      edge.at("to").broken("a node is there twice");
    }
    graph.tensors.push_back(std::move(tensor));
  }
  return graph;
}

OperatorDevice numbered_hosts(std::string type, const Place& count) {
  const std::int64_t hosts = count.integer();
  if (hosts < 0 || hosts > static_cast<std::int64_t>(kMaxOperatorHosts)) {
    count.broken(format("is not in 0..{}", kMaxOperatorHosts));
  }
  OperatorDevice device{std::move(type), {}};
  for (std::int64_t k = 1; k <= hosts; ++k) device.hosts.push_back(format("{}-{}", device.type, k));
  return device;
}

// Edges of one node are one tensor, which has one cost.
void read_costs(const Place& top, const std::map<std::int64_t, std::size_t>& number,
                OperatorGraph& graph) {
  std::map<std::size_t, OperatorTensor> tensors;
  const auto end_at = [&](const Place& place) {
    const auto found = number.find(place.integer());
    if (found == number.end()) place.broken(format("there is no node {}", place.integer()));
    return found->second;
  };
  for (const Place& edge : top.at("edges").entries(kMaxOperatorEdges)) {
    const std::size_t from = end_at(edge.at("sourceId"));
    const double bytes =
        edge.at("cost").amount() * kSecondsPerMillisecond * kAcceleratorMbps * kBytesPerMegabit;
    OperatorTensor& tensor =
        tensors.try_emplace(from, OperatorTensor{from, {}, bytes}).first->second;
    if (std::abs(tensor.bytes - bytes) > 1e-6 * std::max(tensor.bytes, bytes)) {
      edge.at("cost").broken("another edge from the same node has another cost");
    }
    tensor.consumers.push_back(end_at(edge.at("destId")));
  }
  for (auto& [from, tensor] : tensors) {
    std::ranges::sort(tensor.consumers);
    const auto twice = std::ranges::unique(tensor.consumers);
    tensor.consumers.erase(twice.begin(), twice.end());
    graph.tensors.push_back(std::move(tensor));
  }
}

// Microsoft's dnn-partitioning; other members than those read here are allowed there.
OperatorGraph read_dnn_partitioning(const Place& top) {
  OperatorGraph graph;
  graph.devices.push_back(numbered_hosts("accelerator", top.at("maxFPGAs")));
  graph.devices[0].memory_mb = top.at("maxSizePerFPGA").amount() / kBytesPerMegabyte;
  graph.devices[0].bandwidth_mbps = kAcceleratorMbps;
  graph.devices.push_back(numbered_hosts("cpu", top.at("maxCPUs")));
  std::map<std::int64_t, std::size_t> number;
  for (const Place& place : top.at("nodes").entries(kMaxOperators)) {
    OperatorNode node;
    const std::int64_t id = place.at("id").integer();
    node.name = std::to_string(id);
    node.time_s = {kCannotRun, place.at("cpuLatency").amount() * kSecondsPerMillisecond};
    if (place.at("supportedOnFpga").yes()) {
      node.time_s[0] = place.at("fpgaLatency").amount() * kSecondsPerMillisecond;
    }
    if (place.has("size")) node.memory_mb = place.at("size").amount() / kBytesPerMegabyte;
    if (place.has("colorClass")) node.colocate = std::to_string(place.at("colorClass").integer());
    node.backward = place.at("isBackwardNode").yes();
    if (!number.emplace(id, graph.nodes.size()).second) {
      place.at("id").broken(format("node {} is there twice", id));
    }
    graph.nodes.push_back(std::move(node));
  }
  read_costs(top, number, graph);
  return graph;
}

}  // namespace

OperatorGraph parse_operator_graph(std::string_view text, std::string_view name) {
  if (text.size() > kMaxOperatorFileBytes) {
    fail(ErrorCode::kResourceExhausted, "{}: {} bytes, {} are allowed", name, text.size(),
         kMaxOperatorFileBytes);
  }
  const Json json = Json::parse(text, name);
  const Place top(json, std::string(name));
  if (!json.is_object())
    top.broken("is no operator graph: an object with devices, nodes and edges");
  OperatorGraph graph = top.has("maxFPGAs") ? read_dnn_partitioning(top) : read_own(top);
  try {
    check_operator_graph(graph);
  } catch (const Error& error) {
    top.broken(error.what());
  }
  return graph;
}

}  // namespace harmonics::inline in_plan
