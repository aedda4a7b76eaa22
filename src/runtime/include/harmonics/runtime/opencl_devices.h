// Which OpenCL devices there are, and which of them the fpga backend takes.
//
// Any thread. In a program that does not link harmonics::runtime_opencl the list is empty and
// opencl_is_built() says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_runtime {

enum class OpenClType { kCpu, kGpu, kAccelerator, kOther };

/// "cpu", "gpu", "accelerator", "other".
[[nodiscard]] std::string_view opencl_type_name(OpenClType type);

struct OpenClDevice {
  std::string platform;
  /// Number of the platform, in the order in which the loader lists them.
  std::size_t platform_index = 0;
  std::string name;
  std::string driver;
  OpenClType type = OpenClType::kOther;
  std::uint64_t memory_bytes = 0;
};

/// At most this many devices are listed; further ones are left out.
inline constexpr std::size_t kMaxOpenClDevices = 256;

/// True when this program links harmonics::runtime_opencl.
[[nodiscard]] bool opencl_is_built();

/// All devices of all platforms, in the loader's order: their places in this list are the numbers
/// that `fpga_device_index` means. Empty where no platform answers.
[[nodiscard]] std::vector<OpenClDevice> list_opencl_devices();

/// What somebody asked for.
struct OpenClWish {
  /// Number in the whole list; wins over the two others.
  std::optional<std::uint32_t> index = std::nullopt;
  /// A number, or a part of a name in any case; empty for any. The device's number counts within
  /// the platforms that fit.
  std::string platform = {};
  std::string device = {};
};

/// `index`, and HARMONICS_OPENCL_PLATFORM and HARMONICS_OPENCL_DEVICE from the environment.
[[nodiscard]] OpenClWish opencl_wish(std::optional<std::uint32_t> index);

/// The number of the device that a wish means: the index where one is given, else the first
/// accelerator, else the first device, among those that platform and device fit. Nothing where none
/// fits. Pure.
[[nodiscard]] std::optional<std::size_t> choose_opencl_device(std::span<const OpenClDevice> devices,
                                                              const OpenClWish& wish);

/// The same without devices of CPU type, which Backend::Auto never takes. Pure.
[[nodiscard]] std::optional<std::size_t> choose_opencl_accelerator(
    std::span<const OpenClDevice> devices, const OpenClWish& wish);

/// What a wish without a device lacks, as the beginning of a message. Pure.
[[nodiscard]] std::string opencl_lacking(std::span<const OpenClDevice> devices,
                                         const OpenClWish& wish);

}  // namespace harmonics::inline in_runtime
