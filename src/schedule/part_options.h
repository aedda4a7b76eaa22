// What a deployment says about each part (private to schedule).
#pragma once

#include <vector>

#include <harmonics/graph/deployment.h>
#include <harmonics/runtime/options.h>

namespace harmonics {

/// The options of each part: the shared ones with its own backend and device. A deployment that
/// describes another number of parts, or asks for what this version lacks, is an Error.
[[nodiscard]] std::vector<RuntimeOptions> part_options(std::size_t parts,
                                                       const DeploymentDescriptor& deploy,
                                                       const RuntimeOptions& shared);

}  // namespace harmonics
