// Which compute devices this process can use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <harmonics/graph/deployment.h>
#include <harmonics/runtime/options.h>
#include <harmonics/tensor/buffer.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_runtime {

/// True when libtorch was built for CUDA and at least one GPU answers.
[[nodiscard]] bool cuda_available();
[[nodiscard]] int cuda_device_count();
/// The version of the libtorch in use, for instance "1.13.1".
[[nodiscard]] std::string torch_version();

/// How many threads an operation of the calling thread may use; 0 leaves libtorch's own choice.
/// A new thread calls this before it computes: the number decides the order of sums inside an
/// operation, and until it is told, a thread may use another one than its siblings.
void use_compute_threads(int threads);

/// Whether operations that have no deterministic form are warned of, and float32 on a GPU is never
/// rounded to less. Process-wide.
void use_deterministic_operations(bool deterministic);

/// The tensor itself when it lies in this machine's main memory, else a copy that does.
[[nodiscard]] Tensor cpu_tensor(const Tensor& tensor);

/// The same values in another dtype, in main memory; the tensor itself where it has that dtype.
[[nodiscard]] Tensor convert_tensor(const Tensor& tensor, DType dtype);

/// What a backend means on this machine.
struct BackendChoice {
  /// CPU, GPU or FPGA.
  Backend backend = Backend::CPU;
  /// Where tensors enter and leave: main memory, but for the GPU.
  Device device;
  /// For FPGA: a number of list_opencl_devices().
  std::size_t opencl_device = 0;
};

/// GPU where a CUDA device answers, else FPGA where an OpenCL device answers that is no CPU, else
/// CPU: what Backend::Auto means here.
[[nodiscard]] Backend best_backend();

/// What the options' backend and device numbers mean here. A backend that this machine lacks is the
/// CPU with one warning; under `strict` an Error: kFailedPrecondition, or kUnimplemented where this
/// build leaves the backend out.
[[nodiscard]] BackendChoice resolve_backend(const RuntimeOptions& options);
/// The device of that choice.
[[nodiscard]] Device resolve_device(Backend backend, std::optional<std::uint32_t> device_index,
                                    bool strict);

/// The same values on a device; shares memory where they lie there already.
[[nodiscard]] Tensor copy_to_device(const Tensor& tensor, Device device);
/// Returns once everything that this process has handed to the device is computed. The CPU never
/// keeps anyone waiting.
void wait_for_device(Device device);

}  // namespace harmonics::inline in_runtime
