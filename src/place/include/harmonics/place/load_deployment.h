// A deployment as people write it: a file, or a list of backends.
#pragma once

#include <string>

#include <harmonics/graph/deployment.h>
#include <harmonics/place/place.h>

namespace harmonics::inline in_place {

/// A descriptor and the memory that its file grants each partition.
struct Deployment {
  DeploymentDescriptor descriptor;
  PartitionLimits limits;
  /// True when a partition has a ceiling.
  [[nodiscard]] bool is_limited() const;
};

/// `text` is the name of a YAML file (ends in .yml or .yaml; docs/formats/deployment.md), or a list
/// such as "gpu,fpga,cpu" or "gpu:1,cpu", with the number of the device behind a colon. Errors say
/// what is wrong with it.
[[nodiscard]] Deployment load_deployment(const std::string& text);

}  // namespace harmonics::inline in_place
