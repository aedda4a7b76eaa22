// What this machine calls itself and has left: names, memory and network from the system's own
// files.
//
// Every function reads below `root`, which tests replace; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace harmonics::inline in_place {

/// A processor's or card's name as the name of a device type: letters, digits, dots and dashes, no
/// trade marks, no clock rate. "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz" is
/// "Intel-Xeon-E5-2680-v4".
[[nodiscard]] std::string device_type_name(std::string_view model);

/// The processor, or "cpu" where it has no name.
[[nodiscard]] std::string cpu_type_name(const std::filesystem::path& root = "/");
/// The NVIDIA card of that number, or "gpu" where the driver says nothing.
[[nodiscard]] std::string gpu_type_name(std::uint32_t index,
                                        const std::filesystem::path& root = "/");

/// Bytes that a new process may use: what the system has available or, where that is less, what the
/// control group has left. Nothing where the system does not say.
[[nodiscard]] std::optional<std::int64_t> free_memory_bytes(
    const std::filesystem::path& root = "/");

/// The free memory of a CUDA device, asked from its driver; nothing where that does not answer.
[[nodiscard]] std::optional<std::int64_t> free_gpu_memory_bytes(std::uint32_t index);

/// The speed of the fastest network interface that is up, in 10^6 bits per second as interfaces
/// count; nothing where none says.
[[nodiscard]] std::optional<double> interface_speed_mbps(const std::filesystem::path& root = "/");

}  // namespace harmonics::inline in_place
