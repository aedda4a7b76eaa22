#include <harmonics/runtime/devices.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <mutex>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/runtime/opencl_devices.h>
#include <harmonics/tensor/torch.h>

#include "backends.h"

namespace harmonics::inline in_runtime {

bool cuda_available() { return torch::cuda::is_available(); }

int cuda_device_count() { return static_cast<int>(torch::cuda::device_count()); }

std::string torch_version() { return TORCH_VERSION; }

void use_compute_threads(int threads) {
  // libtorch keeps the number both per thread and for the process, the latter without a lock.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (threads > 0) {
    at::set_num_threads(threads);
  } else {
    at::init_num_threads();
  }
}

Tensor cpu_tensor(const Tensor& tensor) {
  if (tensor.device().kind == DeviceKind::kCpu) return tensor;
  return from_torch(to_torch(tensor).cpu());
}

void use_deterministic_operations(bool deterministic) {
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/true);
  // By itself cuDNN rounds the inputs of float32 convolutions to 10 bits of mantissa.
  at::globalContext().setAllowTF32CuDNN(!deterministic);
}

Tensor convert_tensor(const Tensor& tensor, DType dtype) {
  const Tensor here = cpu_tensor(tensor);
  if (here.dtype() == dtype) return here;
  return from_torch(to_torch(here).to(to_torch(Tensor::empty({0}, dtype)).scalar_type()));
}

Backend best_backend() {
  if (cuda_available()) return Backend::GPU;
  const bool found =
      choose_opencl_accelerator(list_opencl_devices(), opencl_wish(std::nullopt)).has_value();
  return found ? Backend::FPGA : Backend::CPU;
}

void fall_back_to_cpu(ErrorCode code, const std::string& lacking, bool strict) {
  if (strict) fail(code, "{}; choose another backend or drop strict", lacking);
  log_warn("runtime", "{}: using the CPU instead", lacking);
}

BackendChoice resolve_backend(const RuntimeOptions& options) {
  const bool automatic = options.backend == Backend::Auto;
  const Backend backend = automatic ? best_backend() : options.backend;
  if (backend == Backend::CPU) return {};
  if (backend == Backend::GPU) {
    const auto index = static_cast<std::int32_t>(options.device_index.value_or(0));
    if (cuda_available() && index < cuda_device_count()) {
      return {Backend::GPU, {DeviceKind::kCuda, index}, 0};
    }
    fall_back_to_cpu(ErrorCode::kFailedPrecondition,
                     format("this machine has no GPU number {} that libtorch {} can use", index,
                            torch_version()),
                     options.strict);
    return {};
  }
  const std::vector<OpenClDevice> devices = list_opencl_devices();
  const OpenClWish wish = opencl_wish(options.fpga_device_index);
  const auto choose = automatic ? choose_opencl_accelerator : choose_opencl_device;
  if (const auto chosen = choose(devices, wish)) return {Backend::FPGA, {}, *chosen};
  if (!automatic) {
    fall_back_to_cpu(opencl_is_built() ? ErrorCode::kFailedPrecondition : ErrorCode::kUnimplemented,
                     opencl_lacking(devices, wish), options.strict);
  }
  return {};
}

Device resolve_device(Backend backend, std::optional<std::uint32_t> device_index, bool strict) {
  RuntimeOptions options;
  options.backend = backend;
  options.device_index = device_index;
  options.strict = strict;
  return resolve_backend(options).device;
}

Tensor copy_to_device(const Tensor& tensor, Device device) {
  if (tensor.device() == device) return tensor;
  return from_torch(to_torch(tensor).to(
      device.kind == DeviceKind::kCpu
          ? at::Device(at::kCPU)
          : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index))));
}

void wait_for_device(Device device) {
  if (device.kind == DeviceKind::kCuda) torch::cuda::synchronize(device.index);
}

}  // namespace harmonics::inline in_runtime
