#include <harmonics/place/plan_operators.h>

#include <algorithm>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/graph/units.h>
#include <harmonics/plan/inputs.h>

namespace harmonics::inline in_place {

OperatorGraph operator_graph_of(const HarmonicGraph& graph, const PlanProblem& problem) {
  const std::vector<Unit> units = graph_units(graph);
  if (units.size() != problem.layers()) {
    fail(ErrorCode::kFailedPrecondition, "graph '{}' has {} units, the problem {} layers",
         graph.name(), units.size(), problem.layers());
  }
  if (std::ranges::any_of(problem.tied_bytes, [](double bytes) { return bytes > 0; })) {
    fail(ErrorCode::kFailedPrecondition,
         "graph '{}' ties parameters that learn, which an operator graph cannot say: plan it as a "
         "chain, without --dag",
         graph.name());
  }
  OperatorGraph operators{problem.model, {}, {}, {}};
  std::map<std::string, int> seen;
  for (const HostClass& one : problem.classes) {
    // Hosts of one type that links tell apart are several devices here.
    const int times = ++seen[one.type];
    operators.devices.push_back({times == 1 ? one.type : format("{} ({})", one.type, times),
                                 one.hosts, one.memory_mb, one.bandwidth_mbps});
  }
  for (std::size_t k = 0; k < units.size(); ++k) {
    OperatorNode node{units[k].name, {}, problem.layer_memory_mb[k]};
    for (const HostClass& one : problem.classes) node.time_s.push_back(one.layer_time_s[k]);
    operators.nodes.push_back(std::move(node));
  }
  const double bytes = static_cast<double>(plan_dtype_bytes(problem.dtype)) *
                       static_cast<double>(problem.batch_size);
  for (const HandOver& one : unit_hand_overs(graph)) {
    operators.tensors.push_back({one.from, one.to, static_cast<double>(one.elements) * bytes});
  }
  check_operator_graph(operators);
  return operators;
}

}  // namespace harmonics::inline in_place
