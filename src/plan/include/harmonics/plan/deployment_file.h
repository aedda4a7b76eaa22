// The deployment file: which backend, device and share of the work each partition has.
//
//     strict: true
//     partitions:
//       - {backend: gpu, device: 0, weight: 1.5}
//       - {backend: fpga, mem_MB: 2048}
//       - backend: cpu
//
// Names and numbers only; docs/formats/deployment.md is the page. Errors name file and line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_plan {

inline constexpr std::size_t kMaxDeploymentEntries = 4'096;
inline constexpr std::int64_t kMaxDeploymentDevice = 65'535;

struct DeploymentEntry {
  /// cpu, gpu, fpga or auto.
  std::string backend = "auto";
  /// Which GPU, or which OpenCL device.
  std::optional<std::uint32_t> device = std::nullopt;
  std::optional<double> weight = std::nullopt;
  /// Most memory that the partition may need.
  std::optional<double> memory_mb = std::nullopt;
  bool operator==(const DeploymentEntry&) const = default;
};

struct DeploymentFile {
  std::string backend = "auto";
  bool secure = false;
  bool strict = false;
  std::vector<DeploymentEntry> partitions = {};
  bool proofs = false;
  bool operator==(const DeploymentFile&) const = default;
};

[[nodiscard]] DeploymentFile parse_deployment(std::string_view text, std::string_view name);
[[nodiscard]] DeploymentFile read_deployment(const std::filesystem::path& path);
/// As text that reads back to an equal value.
[[nodiscard]] std::string deployment_to_yaml(const DeploymentFile& deployment);

}  // namespace harmonics::inline in_plan
