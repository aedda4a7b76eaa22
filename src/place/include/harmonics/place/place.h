// Choosing backends and sharing a graph out among unlike devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>

namespace harmonics::inline in_place {

/// Partitions of one deployment; more are an Error.
inline constexpr std::size_t kMaxPartitions = 4'096;

/// The best backend that works on this machine: GPU where a CUDA device answers, else FPGA where an
/// OpenCL device answers that is no CPU, else CPU. Any thread.
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

/// Ceilings on what the parts may need.
struct PartitionLimits {
  /// Megabytes (10^6 bytes) per partition; nothing where there is no ceiling.
  std::vector<std::optional<double>> memory_mb = {};
  /// Samples of a micro-batch, for the activations.
  std::int64_t micro_batch = 1;
};

/// The same, but part i needs at most its memory: weights, and with a training tap gradients, the
/// state of Adam and the activations of every micro-batch that 1F1B keeps in flight; see
/// profile_memory.h. Limits for another number of partitions are an Error; so is a graph that no
/// cut makes fit (kResourceExhausted), which says what each part would need.
[[nodiscard]] std::vector<HarmonicGraph> auto_partition(const HarmonicGraph& graph,
                                                        const DeploymentDescriptor& deploy,
                                                        const PartitionLimits& limits);

}  // namespace harmonics::inline in_place
