#include <harmonics/place/list_devices.h>

#include <harmonics/base/format.h>
#include <harmonics/place/profile_machine.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/opencl_devices.h>

namespace harmonics::inline in_place {

std::vector<ComputeDevice> list_devices() {
  const Backend best = best_backend();
  const std::string torch = "libtorch " + torch_version();
  std::vector<ComputeDevice> devices;
  devices.push_back({"cpu", 0, cpu_type_name(), torch, free_memory_bytes(), Backend::CPU, true,
                     best == Backend::CPU});
  const int cards = cuda_available() ? cuda_device_count() : 0;
  for (int i = 0; i < cards; ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    devices.push_back({"cuda", index, gpu_type_name(index), torch, free_gpu_memory_bytes(index),
                       Backend::GPU, i == 0, i == 0 && best == Backend::GPU});
  }
  const std::vector<OpenClDevice> found = list_opencl_devices();
  const OpenClWish wish = opencl_wish(std::nullopt);
  const auto chosen = choose_opencl_device(found, wish);
  const auto automatic = choose_opencl_accelerator(found, wish);
  for (std::size_t i = 0; i < found.size(); ++i) {
    devices.push_back({"opencl", static_cast<std::uint32_t>(i),
                       format("{} ({})", found[i].name, opencl_type_name(found[i].type)),
                       format("{} {}", found[i].platform, found[i].driver),
                       static_cast<std::int64_t>(found[i].memory_bytes), Backend::FPGA, chosen == i,
                       best == Backend::FPGA && automatic == i});
  }
  return devices;
}

}  // namespace harmonics::inline in_place
