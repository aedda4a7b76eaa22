#include <harmonics/place/place.h>

#include <string>

#include <harmonics/base/log.h>
#include <harmonics/graph/partition.h>
#include <harmonics/runtime/devices.h>

#include "share.h"

namespace harmonics {

Backend select_accelerator_backend() { return cuda_available() ? Backend::GPU : Backend::CPU; }

std::vector<HarmonicGraph> auto_partition(const HarmonicGraph& graph,
                                          const DeploymentDescriptor& deploy) {
  std::vector<double> weights;
  std::string resolved;
  for (const Share& share : resolve_shares(deploy, select_accelerator_backend())) {
    resolved +=
        format("{}{} {}", weights.empty() ? "" : ", ", backend_name(share.backend), share.weight);
    weights.push_back(share.weight);
  }
  const std::vector<std::size_t> first_layers = balanced_first_layers(graph, weights);
  log_info("place", "graph '{}' goes to {} partitions with the weights {}", graph.name(),
           weights.size(), resolved);
  return cut_graph(graph, first_layers);
}

}  // namespace harmonics
