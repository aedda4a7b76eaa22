// Choosing backends and sharing a graph out among unlike devices.
#pragma once

#include <cstddef>
#include <vector>

#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>

namespace harmonics {

/// Partitions of one deployment; more are an Error.
inline constexpr std::size_t kMaxPartitions = 4'096;

/// The best backend that works on this machine: GPU where a CUDA device answers, else CPU. Never
/// FPGA: an OpenCL device has to be asked for by name. Any thread.
[[nodiscard]] Backend select_accelerator_backend();

/// Cuts the graph into one part per entry of deploy.partitions, in that order. Part i gets work in
/// proportion to its weight (partition_weight): the largest (estimated cost) / weight is as small
/// as any cut between units can make it, or between layers when there are fewer units than parts.
/// Every part has at least one layer. A partition whose backend is Auto counts as deploy.backend,
/// and if that is Auto too as select_accelerator_backend(). The resolved weights are logged at
/// level info.
///
/// The parts obey the rules of partition.h. Errors: no partitions, more than layers or
/// kMaxPartitions, a weight that is not above 0, a graph that is not resolved. Any thread.
[[nodiscard]] std::vector<HarmonicGraph> auto_partition(const HarmonicGraph& graph,
                                                        const DeploymentDescriptor& deploy);

}  // namespace harmonics
