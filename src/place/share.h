// Who gets how much, decided without looking at the machine (private to place).
#pragma once

#include <vector>

#include <harmonics/graph/deployment.h>

namespace harmonics::inline in_place {

/// What one partition runs on and how much of the work it takes.
struct Share {
  Backend backend = Backend::CPU;
  double weight = 1;
  bool operator==(const Share&) const = default;
};

/// One share per partition; `accelerator` is what Auto means on this machine. The number of
/// partitions must lie in 1..kMaxPartitions, else an Error.
[[nodiscard]] std::vector<Share> resolve_shares(const DeploymentDescriptor& deploy,
                                                Backend accelerator);

}  // namespace harmonics::inline in_place
