// DistributedScheduler: the parts of a graph in one process, connected by their boundaries.
#pragma once

#include <cstddef>
#include <vector>

#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>
#include <harmonics/schedule/part_scheduler.h>
#include <harmonics/schedule/pipeline.h>
#include <harmonics/schedule/remote_options.h>

namespace harmonics::inline in_schedule {

/// Runs parts made by partition_graph or auto_partition, in order, each on its own backend.
/// Outputs, gradients and weights equal those of the uncut graph bit for bit; checkpoints are the
/// same files, so a run may go on in another number of parts. One thread calls it. Several parts
/// work on several micro-batches (or, in inference, batches) at the same time, each part on a
/// thread of its own with `options.threads` inside its operations, in the order that `pipeline`
/// says; what is alone passes the parts on the caller's thread.
///
/// The parts may be any subset of a graph's: boundaries whose other end is not here stay open until
/// they are bound to a meeting place, and the schedulers of all processes work as one run; then
/// what RemoteScheduler says of waiting, epochs and errors holds here.
///
/// What goes wrong in one part stops all parts within the step, with an Error that names the part;
/// while all parts are here, the weights are those from before the step, and the next step may be
/// tried.
///
///     DistributedScheduler scheduler(partition_graph(graph, 2));
///     scheduler.bindProducer("image", images);
///     scheduler.bindProducer("label", labels);
///     scheduler.fit(30);
class DistributedScheduler : public PartScheduler {
 public:
  /// `deploy.partitions` is empty or has one entry per part. A part's target is an endpoint URL
  /// without a name, `tcp://host:port`: its open boundaries meet the others there, unless they are
  /// bound otherwise. With `deploy.secure` (or `options.secure.on`) every tensor on a boundary, and
  /// what leaves the graph, is signed, and checked before it is used (docs/guides/custody.md);
  /// `options.secure` says with which key and where the chain goes. A check that fails stops the
  /// run with an Error that names the link.
  explicit DistributedScheduler(const std::vector<HarmonicGraph>& parts,
                                const DeploymentDescriptor& deploy = {},
                                const RuntimeOptions& options = {},
                                const PipelineOptions& pipeline = {});
  DistributedScheduler(const std::vector<HarmonicGraph>& parts, const DeploymentDescriptor& deploy,
                       const RemoteOptions& options);

  using PartScheduler::infer;
  /// Many batches, which pass the parts at the same time; the same answers as one by one.
  [[nodiscard]] std::vector<NamedTensors> infer(const std::vector<NamedTensors>& batches);
  [[nodiscard]] std::size_t part_count() const;
};

}  // namespace harmonics::inline in_schedule
