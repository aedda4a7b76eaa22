// The devices that a dispatcher knows, and their names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_dispatch {

enum class WorkDeviceKind { kCpu, kCuda, kMps, kXpu, kEmulated };

/// The most devices, and the most lanes of one device, that a scheduler takes.
inline constexpr std::size_t kMaxWorkDevices = 256;
inline constexpr int kMaxLanes = 64;

/// What a user function is told about where it runs. A value; it owns its name.
struct WorkDevice {
  /// As it was written: "cuda:0".
  std::string name = "cpu";
  WorkDeviceKind kind = WorkDeviceKind::kCpu;
  /// -1: none was given, as in "cuda".
  int index = -1;
  /// Emulated devices: how long they take.
  double rows_per_second = 0;
  Nanoseconds latency{0};
  /// Which of the device's lanes this is; each has a thread of its own and, on a GPU, a stream.
  int lane = 0;
  /// Threads that an operation on the CPU should use, so that the lanes which feed accelerators
  /// find a free core; 0: not decided.
  int compute_threads = 0;

  [[nodiscard]] bool emulated() const { return kind == WorkDeviceKind::kEmulated; }
};

/// Reads a device's name: torch's names "cpu", "cuda", "cuda:1", "mps", "xpu:0", and
/// "emulated:<rows per second>,<latency>[#label]", a device that takes a stated time: a sub-batch
/// of n rows takes latency + n / rate. A latency is in seconds, or has a unit: "emulated:2e6,1ms",
/// "emulated:1e5,50us#slow". Another name is an Error (kInvalidArgument) that lists these.
[[nodiscard]] WorkDevice parse_work_device(std::string_view name);

/// Reads a list of names and refuses what makes no sense together: none at all, too many, the same
/// device twice (two equal emulated devices differ by their labels), "cuda" beside "cuda:0". mps
/// and xpu are accepted with one warning per process that they are not tested.
[[nodiscard]] std::vector<WorkDevice> parse_work_devices(std::span<const std::string> names);

/// The time that an emulated device takes for so many rows once it starts.
[[nodiscard]] Nanoseconds emulated_row_time(const WorkDevice& device, std::size_t rows);

}  // namespace harmonics::inline in_dispatch
