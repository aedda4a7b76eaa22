// Which compute devices this process can use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <harmonics/graph/deployment.h>
#include <harmonics/tensor/buffer.h>

namespace harmonics {

/// True when libtorch was built for CUDA and at least one GPU answers.
[[nodiscard]] bool cuda_available();
[[nodiscard]] int cuda_device_count();
/// The version of the libtorch in use, for instance "1.13.1".
[[nodiscard]] std::string torch_version();

/// The device a backend means here. A backend that this machine lacks is the CPU with one warning,
/// or an Error under `strict`.
[[nodiscard]] Device resolve_device(Backend backend, std::optional<std::uint32_t> device_index,
                                    bool strict);

}  // namespace harmonics
