#include <harmonics/plan/operator_graph.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <harmonics/base/error.h>

namespace harmonics::inline in_plan {
namespace {

template <typename... Args>
void demand(bool held, FormatString<Args...> text, Args&&... args) {
  if (!held) fail(ErrorCode::kInvalidArgument, text, std::forward<Args>(args)...);
}

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

void check_devices(const OperatorGraph& graph) {
  demand(graph.devices.size() <= kMaxOperatorDevices, "{} device types, {} are allowed",
         graph.devices.size(), kMaxOperatorDevices);
  std::set<std::string> types, hosts;
  for (const OperatorDevice& device : graph.devices) {
    demand(!device.type.empty(), "a device type has no name");
    demand(types.insert(device.type).second, "device type '{}' is there twice", device.type);
    demand(device.memory_mb >= 0, "device type '{}': its memory is below 0", device.type);
    demand(device.bandwidth_mbps > 0, "device type '{}': its bandwidth is not above 0",
           device.type);
    for (const std::string& host : device.hosts) {
      demand(!host.empty(), "device type '{}': a host has no name", device.type);
      demand(hosts.insert(host).second, "host '{}' is there twice", host);
    }
  }
  demand(hosts.size() <= kMaxOperatorHosts, "{} hosts, {} are allowed", hosts.size(),
         kMaxOperatorHosts);
}

void check_nodes(const OperatorGraph& graph) {
  demand(graph.nodes.size() <= kMaxOperators, "{} operators, {} are allowed", graph.nodes.size(),
         kMaxOperators);
  std::set<std::string> names;
  for (const OperatorNode& node : graph.nodes) {
    demand(!node.name.empty(), "an operator has no name");
    demand(names.insert(node.name).second, "operator '{}' is there twice", node.name);
    demand(node.time_s.size() == graph.devices.size(),
           "operator '{}': {} times for {} device types", node.name, node.time_s.size(),
           graph.devices.size());
    for (const double time : node.time_s) {
      demand(is_amount(time) || time == kCannotRun, "operator '{}': a time is below 0 or no number",
             node.name);
    }
    demand(is_amount(node.memory_mb), "operator '{}': its memory is below 0 or no number",
           node.name);
  }
}

void check_tensor(const OperatorGraph& graph, const OperatorTensor& tensor) {
  demand(tensor.producer < graph.nodes.size(), "a tensor comes from operator {} of {}",
         tensor.producer, graph.nodes.size());
  const OperatorNode& producer = graph.nodes[tensor.producer];
  demand(is_amount(tensor.bytes), "what '{}' makes has a size below 0", producer.name);
  for (std::size_t k = 0; k < tensor.consumers.size(); ++k) {
    const std::size_t to = tensor.consumers[k];
    demand(to < graph.nodes.size(), "what '{}' makes goes to operator {} of {}", producer.name, to,
           graph.nodes.size());
    demand(k == 0 || tensor.consumers[k - 1] < to, "what '{}' makes has consumers out of order",
           producer.name);
    demand(to != tensor.producer, "operator '{}' takes what it makes", producer.name);
    demand(!producer.backward || graph.nodes[to].backward,
           "'{}' of the backward pass makes what '{}' of the forward pass takes", producer.name,
           graph.nodes[to].name);
  }
}

// Takes away operators whose inputs are all there; what is left goes round in a circle.
void check_no_circle(const OperatorGraph& graph) {
  std::vector<std::size_t> waits(graph.nodes.size(), 0);
  std::vector<std::vector<std::size_t>> after(graph.nodes.size());
  for (const OperatorTensor& tensor : graph.tensors) {
    for (const std::size_t to : tensor.consumers) {
      ++waits[to];
      after[tensor.producer].push_back(to);
    }
  }
  std::vector<std::size_t> ready;
  std::size_t done = 0;
  for (std::size_t k = 0; k < waits.size(); ++k) {
    if (waits[k] == 0) ready.push_back(k);
  }
  while (!ready.empty()) {
    const std::size_t at = ready.back();
    ready.pop_back();
    ++done;
    for (const std::size_t to : after[at]) {
      if (--waits[to] == 0) ready.push_back(to);
    }
  }
  if (done == graph.nodes.size()) return;
  const auto stuck = std::ranges::find_if(waits, [](std::size_t left) { return left > 0; });
  fail(ErrorCode::kInvalidArgument, "operators wait for each other in a circle, '{}' among them",
       graph.nodes[static_cast<std::size_t>(stuck - waits.begin())].name);
}

}  // namespace

void check_operator_graph(const OperatorGraph& graph) {
  check_devices(graph);
  check_nodes(graph);
  std::size_t edges = 0;
  for (const OperatorTensor& tensor : graph.tensors) {
    check_tensor(graph, tensor);
    edges += 1 + tensor.consumers.size();
  }
  demand(edges <= 2 * kMaxOperatorEdges, "{} ends of tensors, {} are allowed", edges,
         2 * kMaxOperatorEdges);
  check_no_circle(graph);
}

}  // namespace harmonics::inline in_plan
