// The parts of a graph for a deployment.
#pragma once

#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/place/load_deployment.h>

namespace harmonics::inline in_torch_program {

/// One part per backend that the deployment names, within the memory that it grants.
inline std::vector<HarmonicGraph> deployed_parts(const HarmonicGraph& graph,
                                                 const Deployment& deployment) {
  return deployment.is_limited() ? auto_partition(graph, deployment.descriptor, deployment.limits)
                                 : auto_partition(graph, deployment.descriptor);
}

}  // namespace harmonics::inline in_torch_program
