// The devices of this machine, and which backend would use each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/graph/deployment.h>

namespace harmonics::inline in_place {

struct ComputeDevice {
  /// "cpu", "cuda" or "opencl".
  std::string kind;
  /// Number among its kind: device_index, or fpga_device_index.
  std::uint32_t index = 0;
  std::string name;
  /// What drives it, with its version.
  std::string driver;
  /// Free memory of the CPU and of CUDA devices, all of it for OpenCL; nothing where unknown.
  std::optional<std::int64_t> memory_bytes;
  Backend backend = Backend::CPU;
  /// True when that backend takes this device without being given a number.
  bool is_default = false;
  /// True when Backend::Auto takes it.
  bool is_auto = false;
};

/// The CPU, then CUDA devices, then OpenCL devices. Any thread.
[[nodiscard]] std::vector<ComputeDevice> list_devices();

}  // namespace harmonics::inline in_place
