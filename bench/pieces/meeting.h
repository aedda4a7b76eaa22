// One part of a cut graph, whose boundaries all meet the other's at one place.
#pragma once

#include <string>
#include <vector>

#include <harmonics/graph/partition.h>
#include <harmonics/schedule/remote_scheduler.h>

namespace bench {

/// `place.name` is the run.
inline harmonics::RemoteScheduler meeting_part(const harmonics::HarmonicGraph& part,
                                               const harmonics::RemoteBinding& place,
                                               const harmonics::RuntimeOptions& runtime) {
  std::vector<harmonics::RemoteBinding> entering, leaving;
  const auto meet = [&](const std::string& name, std::vector<harmonics::RemoteBinding>& ends) {
    if (!harmonics::is_boundary_name(name)) return;
    ends.push_back(place);
    ends.back().name = name;
  };
  for (const harmonics::ProducerNode& node : part.producers()) meet(node.name, entering);
  for (const harmonics::ConsumerNode& node : part.consumers()) meet(node.name, leaving);
  harmonics::RemoteOptions options;
  options.runtime = runtime;
  options.transport.run = place.name;
  return harmonics::RemoteScheduler(part, entering, leaving, {}, options);
}

}  // namespace bench
