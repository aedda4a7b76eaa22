#include "share.h"

#include <harmonics/base/error.h>
#include <harmonics/place/place.h>

namespace harmonics::inline in_place {

std::vector<Share> resolve_shares(const DeploymentDescriptor& deploy, Backend accelerator) {
  if (deploy.partitions.empty()) {
    fail(
        ErrorCode::kInvalidArgument,
        "the deployment names no partitions: add one entry to DeploymentDescriptor::partitions per "
        "part, or cut by count with partition_graph");
  }
  if (deploy.partitions.size() > kMaxPartitions) {
    fail(ErrorCode::kInvalidArgument, "the deployment has {} partitions; at most {} are possible",
         deploy.partitions.size(), kMaxPartitions);
  }
  std::vector<Share> shares;
  for (const PartitionOptions& options : deploy.partitions) {
    Backend backend = options.backend;
    if (backend == Backend::Auto) backend = deploy.backend;
    if (backend == Backend::Auto) backend = accelerator;
    shares.push_back({backend, partition_weight(options, backend)});
  }
  return shares;
}

}  // namespace harmonics::inline in_place
