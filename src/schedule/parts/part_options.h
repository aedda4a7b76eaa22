// What a deployment says about each part (private to schedule).
#pragma once

#include <string>
#include <vector>

#include <harmonics/graph/deployment.h>
#include <harmonics/runtime/options.h>
#include <harmonics/transport/binding.h>

namespace harmonics::inline in_schedule {

/// The options of each part: the shared ones with its own backend and device. A deployment that
/// describes another number of parts, or asks for what this version lacks, is an Error.
[[nodiscard]] std::vector<RuntimeOptions> part_options(std::size_t parts,
                                                       const DeploymentDescriptor& deploy,
                                                       const RuntimeOptions& shared);

/// A deployment that asks for proofs needs a secure run and what proves; anything else is an Error.
void check_proofs(const DeploymentDescriptor& deploy, const SecureOptions& secure);

/// The meeting place of a boundary of a part whose target is `url`, an endpoint URL without a name.
/// Anything else is an Error.
[[nodiscard]] RemoteBinding parse_target(const std::string& url, const std::string& boundary);

}  // namespace harmonics::inline in_schedule
