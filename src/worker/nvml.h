// NVIDIA's management library, found at run time (private to worker).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <harmonics/cluster/worker.h>

namespace harmonics::inline in_worker {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// The GPUs that the library knows, in its order, which is that of `nvidia-smi`. Nothing when the
/// library is not there; an Error when it is and fails.
[[nodiscard]] std::optional<std::vector<DeviceSpec>> find_nvml_gpus(
    const std::string& library = kNvmlLibrary);

}  // namespace harmonics::inline in_worker
