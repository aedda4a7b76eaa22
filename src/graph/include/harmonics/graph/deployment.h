// Where partitions run: backends, and the options of each partition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_graph {

/// What computes a partition. FPGA means an OpenCL device; Auto means the best that works here.
enum class Backend { CPU, GPU, FPGA, Auto };

/// "cpu", "gpu", "fpga", "auto".
[[nodiscard]] std::string_view backend_name(Backend backend);
/// The backend of that name (any case); another name is an Error that lists the names.
[[nodiscard]] Backend backend_from_name(std::string_view name);

/// How one partition is placed. Every member has a default, so `{Backend::FPGA}` is complete.
struct PartitionOptions {
  /// Auto: what the descriptor says.
  Backend backend = Backend::Auto;
  /// Endpoint URL of this part; empty for a part in this process.
  std::string target = {};
  /// Which GPU; the first one when unset.
  std::optional<std::uint32_t> device_index = std::nullopt;
  /// Which OpenCL device; chosen by the OpenCL rules when unset.
  std::optional<std::uint32_t> fpga_device_index = std::nullopt;
  /// Share of the work relative to the other partitions; it replaces the backend's default.
  std::optional<double> weight = std::nullopt;
};

/// A whole deployment.
struct DeploymentDescriptor {
  Backend backend = Backend::Auto;
  /// Sign and verify every boundary tensor.
  bool secure = false;
  /// A backend that this machine lacks is an error instead of a warning and the CPU.
  bool strict = false;
  /// Compute in the reproducible arithmetic (docs/formats/reproducible.md). Auto is the CPU then.
  bool reproducible = false;
  /// With `secure`: every part proves with zero knowledge what it computed, and checks the proof of
  /// what it receives. What computes and proves is given to the scheduler (SecureOptions::proofs).
  bool proofs = false;
  std::vector<PartitionOptions> partitions = {};
};

/// The weight of one partition: the user's if set, else 4 for GPU, 2 for FPGA, 1 for CPU. With
/// `{GPU, "", 0, nullopt, 1.5}, {FPGA}, {CPU}` the three weights are 1.5 : 2 : 1; with a GPU set to
/// 2.0 and an FPGA left alone they are 2 : 2. `backend` is the partition's resolved backend.
[[nodiscard]] double partition_weight(const PartitionOptions& options, Backend backend);

}  // namespace harmonics::inline in_graph
