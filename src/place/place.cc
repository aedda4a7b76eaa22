#include <harmonics/place/place.h>

#include <string>

#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>
#include <harmonics/graph/partition.h>
#include <harmonics/runtime/devices.h>

#include "limited_cut.h"
#include "share.h"

namespace harmonics::inline in_place {

namespace {

std::vector<double> resolved_weights(const HarmonicGraph& graph,
                                     const DeploymentDescriptor& deploy) {
  std::vector<double> weights;
  std::string resolved;
  for (const Share& share : resolve_shares(deploy, select_accelerator_backend())) {
    add_item(resolved, format("{} {}", backend_name(share.backend), share.weight));
    weights.push_back(share.weight);
  }
  log_info("place", "graph '{}' goes to {} partitions with the weights {}", graph.name(),
           weights.size(), resolved);
  return weights;
}

}  // namespace

Backend select_accelerator_backend() { return best_backend(); }

std::vector<HarmonicGraph> auto_partition(const HarmonicGraph& graph,
                                          const DeploymentDescriptor& deploy) {
  return cut_graph(graph, balanced_first_layers(graph, resolved_weights(graph, deploy)));
}

std::vector<HarmonicGraph> auto_partition(const HarmonicGraph& graph,
                                          const DeploymentDescriptor& deploy,
                                          const PartitionLimits& limits) {
  return cut_graph(graph, limited_first_layers(graph, resolved_weights(graph, deploy), limits));
}

}  // namespace harmonics::inline in_place
