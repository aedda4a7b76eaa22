#include "part_options.h"

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_schedule {

std::vector<RuntimeOptions> part_options(std::size_t parts, const DeploymentDescriptor& deploy,
                                         const RuntimeOptions& shared) {
  if (!deploy.partitions.empty() && deploy.partitions.size() != parts) {
    fail(ErrorCode::kInvalidArgument,
         "the deployment describes {} partitions, but there are {} parts: give one entry per part",
         deploy.partitions.size(), parts);
  }
  std::vector<RuntimeOptions> options(parts, shared);
  for (RuntimeOptions& one : options) one.reproducible |= deploy.reproducible;
  for (std::size_t i = 0; i < deploy.partitions.size(); ++i) {
    const PartitionOptions& partition = deploy.partitions[i];
    options[i].backend = partition.backend == Backend::Auto ? deploy.backend : partition.backend;
    options[i].device_index = partition.device_index;
    options[i].fpga_device_index = partition.fpga_device_index;
    options[i].strict = deploy.strict;
    log_info("schedule", "part {} runs on {} with weight {}", i, backend_name(options[i].backend),
             partition_weight(partition, options[i].backend));
  }
  return options;
}

void check_proofs(const DeploymentDescriptor& deploy, const SecureOptions& secure) {
  if (!deploy.proofs) return;
  if (secure.proofs == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "the deployment asks for proofs, which only an int8 network can give: make one with "
         "'harmonics quantize' and set SecureOptions::proofs to int8_proofs of it, or leave proofs "
         "out");
  }
  if (deploy.secure || secure.on) return;
  fail(ErrorCode::kInvalidArgument,
       "the deployment asks for proofs but not for a secure run, whose chain holds them: set "
       "secure too");
}

RemoteBinding parse_target(const std::string& url, const std::string& boundary) {
  const std::size_t question = url.find('?');
  const std::string place = url.substr(0, question);
  const std::size_t authority = place.find("://");
  if (authority != std::string::npos && place.find('/', authority + 3) != std::string::npos) {
    fail(ErrorCode::kInvalidArgument,
         "target '{}' names a boundary: write it as tcp://host:port, since all open boundaries of "
         "the part meet there",
         url);
  }
  const std::string settings = question == std::string::npos ? "" : url.substr(question);
  RemoteBinding binding = parse_binding(place + "/any" + settings);
  binding.name = boundary;
  return binding;
}

}  // namespace harmonics::inline in_schedule
