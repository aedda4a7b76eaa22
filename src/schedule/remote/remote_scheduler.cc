#include <harmonics/schedule/remote_scheduler.h>

#include <utility>

#include "parts/part_group.h"

namespace harmonics::inline in_schedule {

RemoteScheduler::RemoteScheduler(HarmonicGraph part, const std::vector<RemoteBinding>& producers,
                                 const std::vector<RemoteBinding>& consumers,
                                 const DeploymentDescriptor& deploy, const RemoteOptions& options)
    : PartScheduler({std::move(part)}, deploy, options) {
  for (const RemoteBinding& binding : producers) bindProducer(binding);
  for (const RemoteBinding& binding : consumers) bindConsumer(binding);
}

const HarmonicGraph& RemoteScheduler::graph() const { return group().parts().front(); }
Nanoseconds RemoteScheduler::waited() const { return group().waited(); }

}  // namespace harmonics::inline in_schedule
