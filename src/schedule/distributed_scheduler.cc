#include <harmonics/schedule/distributed_scheduler.h>

#include <utility>

#include "parts/part_group.h"

namespace harmonics::inline in_schedule {

namespace {

RemoteOptions options_of(const RuntimeOptions& runtime, const PipelineOptions& pipeline) {
  RemoteOptions options;
  options.runtime = runtime;
  options.pipeline = pipeline;
  return options;
}

}  // namespace

DistributedScheduler::DistributedScheduler(const std::vector<HarmonicGraph>& parts,
                                           const DeploymentDescriptor& deploy,
                                           const RuntimeOptions& options,
                                           const PipelineOptions& pipeline)
    : DistributedScheduler(parts, deploy, options_of(options, pipeline)) {}
DistributedScheduler::DistributedScheduler(const std::vector<HarmonicGraph>& parts,
                                           const DeploymentDescriptor& deploy,
                                           const RemoteOptions& options)
    : PartScheduler(parts, deploy, options) {
  if (group().is_whole()) static_cast<void>(trainer());
}

std::vector<NamedTensors> DistributedScheduler::infer(const std::vector<NamedTensors>& batches) {
  return guarded([&](Trainer& trainer) { return trainer.infer(batches); });
}

std::size_t DistributedScheduler::part_count() const { return group().parts().size(); }

}  // namespace harmonics::inline in_schedule
