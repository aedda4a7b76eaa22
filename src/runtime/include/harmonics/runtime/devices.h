// Which compute devices this process can use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <harmonics/graph/deployment.h>
#include <harmonics/tensor/buffer.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics {

/// True when libtorch was built for CUDA and at least one GPU answers.
[[nodiscard]] bool cuda_available();
[[nodiscard]] int cuda_device_count();
/// The version of the libtorch in use, for instance "1.13.1".
[[nodiscard]] std::string torch_version();

/// How many threads an operation of the calling thread may use; 0 leaves libtorch's own choice.
/// A new thread calls this before it computes: the number decides the order of sums inside an
/// operation, and until it is told, a thread may use another one than its siblings.
void use_compute_threads(int threads);

/// The tensor itself when it lies in this machine's main memory, else a copy that does.
[[nodiscard]] Tensor cpu_tensor(const Tensor& tensor);

/// The device a backend means here. A backend that this machine lacks is the CPU with one warning,
/// or an Error under `strict`.
[[nodiscard]] Device resolve_device(Backend backend, std::optional<std::uint32_t> device_index,
                                    bool strict);

/// The same values on a device; shares memory where they lie there already.
[[nodiscard]] Tensor copy_to_device(const Tensor& tensor, Device device);
/// Returns once everything that this process has handed to the device is computed. The CPU never
/// keeps anyone waiting.
void wait_for_device(Device device);

}  // namespace harmonics
