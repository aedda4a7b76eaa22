#include <harmonics/place/load_deployment.h>

#include <algorithm>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/plan/deployment_file.h>

namespace harmonics::inline in_place {
namespace {

DeploymentEntry entry_from(std::string_view word) {
  DeploymentEntry entry;
  const std::size_t colon = word.find(':');
  entry.backend = backend_name(backend_from_name(word.substr(0, colon)));
  if (colon == std::string_view::npos) return entry;
  const std::string_view digits = word.substr(colon + 1);
  entry.device = number_from<std::uint32_t>(digits);
  if (!entry.device || *entry.device > kMaxDeploymentDevice) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no device number in '{}': write gpu:1", digits,
         word);
  }
  return entry;
}

DeploymentFile list_from(std::string_view text) {
  DeploymentFile file;
  while (true) {
    const std::size_t comma = text.find(',');
    file.partitions.push_back(entry_from(text.substr(0, comma)));
    if (comma == std::string_view::npos) return file;
    if (file.partitions.size() == kMaxDeploymentEntries) {
      fail(ErrorCode::kInvalidArgument, "a deployment has at most {} partitions",
           kMaxDeploymentEntries);
    }
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

bool Deployment::is_limited() const {
  return std::ranges::any_of(limits.memory_mb, [](const auto& limit) { return limit.has_value(); });
}

Deployment load_deployment(const std::string& text) {
  const bool is_file = text.ends_with(".yml") || text.ends_with(".yaml");
  const DeploymentFile file = is_file ? read_deployment(text) : list_from(text);
  Deployment deployment;
  deployment.descriptor.backend = backend_from_name(file.backend);
  deployment.descriptor.secure = file.secure;
  deployment.descriptor.proofs = file.proofs;
  deployment.descriptor.strict = file.strict;
  for (const DeploymentEntry& entry : file.partitions) {
    PartitionOptions options;
    options.backend = backend_from_name(entry.backend);
    options.weight = entry.weight;
    // One number for both kinds of device: the backend decides which it is.
    options.device_index = entry.device;
    options.fpga_device_index = entry.device;
    deployment.descriptor.partitions.push_back(std::move(options));
    deployment.limits.memory_mb.push_back(entry.memory_mb);
  }
  return deployment;
}

}  // namespace harmonics::inline in_place
