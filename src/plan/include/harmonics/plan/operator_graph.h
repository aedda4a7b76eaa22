// A model as a graph of operators, and the devices that may run it: what the planner takes where a
// model is no chain. docs/formats/operator_graph.md describes the file.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_plan {

// Ceilings of what a graph may hold; the reader enforces them too.
inline constexpr std::size_t kMaxOperators = 20'000;
inline constexpr std::size_t kMaxOperatorEdges = 200'000;
inline constexpr std::size_t kMaxOperatorDevices = 64;
inline constexpr std::size_t kMaxOperatorHosts = 1'000;
inline constexpr std::size_t kMaxOperatorFileBytes = std::size_t{64} << 20;

/// The time of an operator on a device type that cannot run it.
inline constexpr double kCannotRun = std::numeric_limits<double>::infinity();

/// Hosts of one type.
struct OperatorDevice {
  std::string type;
  std::vector<std::string> hosts;
  /// What the operators on one host may need together; infinite: no limit.
  double memory_mb = std::numeric_limits<double>::infinity();
  /// Infinite: transfers take no time.
  double bandwidth_mbps = std::numeric_limits<double>::infinity();

  bool operator==(const OperatorDevice&) const = default;
  [[nodiscard]] bool pays_transfers() const {
    return bandwidth_mbps != std::numeric_limits<double>::infinity();
  }
};

struct OperatorNode {
  std::string name;
  /// Seconds per micro-batch on each device type, `kCannotRun` where it cannot run.
  std::vector<double> time_s;
  double memory_mb = 0;
  /// Operators of one class run on one host; empty: no class.
  std::string colocate = {};
  /// Of a backward pass: it follows the forward operators of its class and orders nothing itself.
  bool backward = false;

  bool operator==(const OperatorNode&) const = default;
};

/// What one operator makes and others take.
struct OperatorTensor {
  std::size_t producer = 0;
  /// Ascending, each once, none of them the producer.
  std::vector<std::size_t> consumers;
  double bytes = 0;

  bool operator==(const OperatorTensor&) const = default;
};

/// A value; checked by `check_operator_graph`.
struct OperatorGraph {
  std::string name;
  std::vector<OperatorDevice> devices;
  std::vector<OperatorNode> nodes;
  std::vector<OperatorTensor> tensors;

  bool operator==(const OperatorGraph&) const = default;
};

/// Throws an `Error` (kInvalidArgument) unless names are there once, every list has its length,
/// numbers are not negative, no tensor goes round in a circle and none from a backward operator to
/// a forward one, and the ceilings hold.
void check_operator_graph(const OperatorGraph& graph);

/// Reads a file of ours, or one of Microsoft's dnn-partitioning as it is. Anything else is an
/// `Error` that says where.
[[nodiscard]] OperatorGraph parse_operator_graph(std::string_view text, std::string_view name);
/// Writes ours.
[[nodiscard]] std::string operator_graph_to_json(const OperatorGraph& graph);

}  // namespace harmonics::inline in_plan
