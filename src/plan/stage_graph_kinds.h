// The shapes of a stage graph; StageGraphBuilder picks one.
#pragma once

#include <cstdint>
#include <span>

#include "stage_graph.h"

namespace harmonics::inline in_plan {

/// Hosts that a stage of this time takes for a period; 0 when it cannot keep it with `limit` hosts.
[[nodiscard]] std::uint16_t hosts_for(double stage_s, const StageGraphOptions& options,
                                      std::uint16_t limit);

/// How long a stage may take in all, with all of the hosts that it could get.
[[nodiscard]] inline double longest_stage_s(const StageGraphOptions& options, std::uint16_t limit) {
  return options.period_s * (options.replicate ? limit : 1) * (1 + kTimeTolerance);
}

/// A stage that begins at a cut, on a class of hosts.
struct StageStart {
  std::size_t host_class;
  std::size_t cut;
  double longest_s;
};

/// Calls visit(cut) for each cut at which such a stage may end; counts what was looked at.
template <typename Visit>
void for_each_end(const CostModel& costs, const StageStart& start, std::uint64_t& work,
                  Visit&& visit) {
  const auto [u, i, longest] = start;
  for (std::size_t j = i + 1; j <= costs.layers() && costs.compute_s(u, i, j) <= longest; ++j) {
    ++work;
    if (costs.layer_memory_bytes(i, j) >= costs.capacity_bytes(u)) break;
    if (costs.allowed(u, i, j)) visit(j);
  }
}

/// Appends arcs node by node and guards the ceiling.
class StageGraphWriter {
 public:
  explicit StageGraphWriter(StageGraph& graph) : graph_(graph) {}
  void begin_node(std::int32_t cut);
  void arc(std::size_t to, std::size_t host_class, std::uint16_t hosts);
  /// After the last node.
  void finish();

 private:
  StageGraph& graph_;
};

/// Nodes are cuts: where a stage's time does not depend on its neighbours.
[[nodiscard]] StageGraph build_cut_graph(const CostModel& costs,
                                         std::span<const std::uint16_t> capacity,
                                         const StageGraphOptions& options);
/// Nodes are cuts and places in the order: hosts in a fixed order, neighbours do not matter.
[[nodiscard]] StageGraph build_ordered_graph(const CostModel& costs,
                                             std::span<const std::uint16_t> capacity,
                                             std::span<const std::size_t> order,
                                             const StageGraphOptions& options);
/// Nodes are cuts together with the class that sends there, or the one that receives; arcs are
/// stages (from receiver to sender of the same class) and transfers (from sender to receiver). For
/// stages whose time does not depend on their neighbours, or where a transfer can be judged by
/// itself.
[[nodiscard]] StageGraph build_hand_over_graph(const CostModel& costs,
                                               std::span<const std::uint16_t> capacity,
                                               std::span<const std::size_t> order,
                                               const StageGraphOptions& options);
/// The class that a node of such a graph sends or receives with; not for its first and last node.
[[nodiscard]] inline std::size_t hand_over_class(std::size_t node, std::size_t classes) {
  return (node - 1) % classes;
}
/// Which classes stand at the same site, as far as links can tell: they have the same links to all
/// others and to each other.
[[nodiscard]] std::vector<std::size_t> sites_of(const CostModel& costs);
/// Nodes are cuts together with a site that sends or receives there. For one host per stage, hosts
/// in any order, and transfers that can be judged by themselves.
[[nodiscard]] StageGraph build_site_graph(const CostModel& costs,
                                          std::span<const std::uint16_t> capacity,
                                          std::span<const std::size_t> site_of,
                                          const StageGraphOptions& options);
/// Nodes are cuts and bandwidths: for hosts in any order whose transfers take the smaller bandwidth
/// of both ends, and nothing else. Far fewer nodes and arcs than with ports.
[[nodiscard]] StageGraph build_level_graph(const CostModel& costs,
                                           std::span<const std::uint16_t> capacity,
                                           const StageGraphOptions& options);
/// Nodes are cuts and ports: the time of a stage depends on both of its neighbours.
[[nodiscard]] StageGraph build_port_graph(const StageGraphBuilder& builder,
                                          std::span<const std::size_t> order,
                                          const StageGraphOptions& options);

}  // namespace harmonics::inline in_plan
