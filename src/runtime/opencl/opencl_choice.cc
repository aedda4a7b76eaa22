#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>

#include <harmonics/base/environment.h>
#include <harmonics/base/format.h>
#include <harmonics/base/number_text.h>
#include <harmonics/runtime/opencl_devices.h>

namespace harmonics::inline in_runtime {
namespace {

bool contains_any_case(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

bool platform_fits(const OpenClDevice& device, const std::string& wish) {
  if (wish.empty()) return true;
  if (const auto number = number_from<std::size_t>(wish)) return device.platform_index == *number;
  return contains_any_case(device.platform, wish);
}

using Accepts = std::function<bool(const OpenClDevice&)>;

std::optional<std::size_t> choose(std::span<const OpenClDevice> devices, const OpenClWish& wish,
                                  const Accepts& accepts) {
  if (wish.index) {
    if (*wish.index >= devices.size() || !accepts(devices[*wish.index])) return std::nullopt;
    return *wish.index;
  }
  std::vector<std::size_t> fitting;
  const auto number = number_from<std::size_t>(wish.device);
  std::size_t place = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!platform_fits(devices[i], wish.platform)) continue;
    const bool fits = number ? place == *number : contains_any_case(devices[i].name, wish.device);
    ++place;
    if (fits && accepts(devices[i])) fitting.push_back(i);
  }
  for (const std::size_t i : fitting) {
    if (devices[i].type == OpenClType::kAccelerator) return i;
  }
  if (fitting.empty()) return std::nullopt;
  return fitting.front();
}

}  // namespace

std::string_view opencl_type_name(OpenClType type) {
  switch (type) {
    case OpenClType::kCpu: return "cpu";
    case OpenClType::kGpu: return "gpu";
    case OpenClType::kAccelerator: return "accelerator";
    case OpenClType::kOther: break;
  }
  return "other";
}

OpenClWish opencl_wish(std::optional<std::uint32_t> index) {
  return {index, environment_text("HARMONICS_OPENCL_PLATFORM"),
          environment_text("HARMONICS_OPENCL_DEVICE")};
}

std::optional<std::size_t> choose_opencl_device(std::span<const OpenClDevice> devices,
                                                const OpenClWish& wish) {
  return choose(devices, wish, [](const OpenClDevice&) { return true; });
}

std::optional<std::size_t> choose_opencl_accelerator(std::span<const OpenClDevice> devices,
                                                     const OpenClWish& wish) {
  return choose(devices, wish,
                [](const OpenClDevice& device) { return device.type != OpenClType::kCpu; });
}

std::string opencl_lacking(std::span<const OpenClDevice> devices, const OpenClWish& wish) {
  if (!opencl_is_built()) {
    return "the fpga backend needs OpenCL, which this program leaves out "
           "(harmonics::runtime_opencl of a "
           "build with HARMONICS_WITH_OPENCL=ON)";
  }
  if (devices.empty()) return "the fpga backend needs an OpenCL platform, and none answers here";
  if (wish.index) {
    return format("the fpga backend was asked for OpenCL device {}, there are {}", *wish.index,
                  devices.size());
  }
  return format(
      "no OpenCL device fits HARMONICS_OPENCL_PLATFORM='{}' and HARMONICS_OPENCL_DEVICE='{}'",
      wish.platform, wish.device);
}

}  // namespace harmonics::inline in_runtime
