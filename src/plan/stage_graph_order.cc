#include "stage_graph_kinds.h"

namespace harmonics::inline in_plan {

// Node (i, k): the layers before cut i are placed, and the k-th host of the order is next. Each
// host runs a stage or is passed over, so a path never takes a host twice.
StageGraph build_ordered_graph(const CostModel& costs, std::span<const std::uint16_t> capacity,
                               std::span<const std::size_t> order,
                               const StageGraphOptions& options) {
  const std::size_t layers = costs.layers();
  const std::size_t places = order.size() + 1;
  StageGraph graph;
  StageGraphWriter writer(graph);
  for (std::size_t i = 0; i <= layers; ++i) {
    for (std::size_t k = 0; k < places; ++k) {
      writer.begin_node(static_cast<std::int32_t>(i));
      if (k + 1 == places) continue;
      writer.arc(i * places + k + 1, kNoHostClass, 0);
      const std::size_t u = order[k];
      const StageStart start{u, i, options.period_s * (1 + kTimeTolerance)};
      for_each_end(costs, start, graph.work, [&](std::size_t j) {
        const std::uint16_t hosts = hosts_for(costs.stage_s(u, i, j), options, capacity[u]);
        if (hosts > 0) writer.arc(j * places + k + 1, u, hosts);
      });
    }
  }
  writer.finish();
  return graph;
}

}  // namespace harmonics::inline in_plan
