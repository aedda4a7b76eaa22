#include <harmonics/runtime/devices.h>

#include <torch/torch.h>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics {

bool cuda_available() { return torch::cuda::is_available(); }

int cuda_device_count() { return static_cast<int>(torch::cuda::device_count()); }

std::string torch_version() { return TORCH_VERSION; }

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

}  // namespace harmonics
