// What this machine offers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/cluster/worker.h>

namespace harmonics::inline in_worker {

/// Processors that this process may use.
[[nodiscard]] std::uint32_t count_cpus();
/// Of the machine, or of this process's cgroup if that allows less.
[[nodiscard]] std::uint64_t host_memory_mb();

/// The GPUs that NVML (libnvidia-ml.so.1) knows, or where that library is missing or fails, those
/// that nvidia-smi lists; none when there is no such program or it fails.
[[nodiscard]] std::vector<DeviceSpec> find_gpus();
/// What `nvidia-smi --query-gpu=index,name,memory.total --format=csv,noheader,nounits` prints. A
/// line that does not look like that is an Error.
[[nodiscard]] std::vector<DeviceSpec> parse_gpu_list(std::string_view text);

/// The seed's three lists, "0,1" "RTX3090,RTX3090" "24576,24576". Lists of unequal length, a
/// negative or missing number, an id given twice are Errors that say so.
[[nodiscard]] std::vector<DeviceSpec> devices_from_lists(const std::string& ids,
                                                         const std::string& models,
                                                         const std::string& memories);

}  // namespace harmonics::inline in_worker
