#include <harmonics/runtime/devices.h>

#include <torch/torch.h>

#include <mutex>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/tensor/torch.h>

namespace harmonics {

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

Device resolve_device(Backend backend, std::optional<std::uint32_t> device_index, bool strict) {
  if (backend == Backend::CPU) return {};
  if (backend == Backend::GPU || backend == Backend::Auto) {
    const auto index = static_cast<std::int32_t>(device_index.value_or(0));
    if (cuda_available() && index < cuda_device_count()) return {DeviceKind::kCuda, index};
    if (backend == Backend::Auto) return {};
  }
  const std::string lacking =
      backend == Backend::FPGA
          ? std::string("this build has no OpenCL part, which the fpga backend needs")
          : format("this machine has no GPU number {} that libtorch {} can use",
                   device_index.value_or(0), torch_version());
  if (strict) fail(ErrorCode::kUnavailable, "{}; choose another backend or drop strict", lacking);
  log_warn("runtime", "{}: using the CPU instead", lacking);
  return {};
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

}  // namespace harmonics
