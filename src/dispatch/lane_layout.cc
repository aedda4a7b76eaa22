#include "lane_layout.h"

#include <algorithm>
#include <limits>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_dispatch {
namespace {

bool has_streams(const WorkDevice& device) {
  return device.kind == WorkDeviceKind::kCuda || device.kind == WorkDeviceKind::kXpu;
}

}  // namespace

std::vector<int> lanes_of(std::span<const WorkDevice> devices, const DispatchOptions& options) {
  if (options.lanes < 0 || options.lanes > kMaxLanes) {
    fail(ErrorCode::kInvalidArgument, "{} lanes per device: give 1 to {}, or 0 for the usual",
         options.lanes, kMaxLanes);
  }
  std::vector<int> lanes;
  for (const WorkDevice& device : devices) {
    if (device.kind == WorkDeviceKind::kCpu) {
      lanes.push_back(1);
    } else if (options.lanes > 0) {
      lanes.push_back(options.lanes);
    } else {
      lanes.push_back(has_streams(device) ? 2 : 1);
    }
  }
  return lanes;
}

std::vector<WorkDevice> lane_devices(std::span<const WorkDevice> devices,
                                     const DispatchOptions& options) {
  const std::vector<int> lanes = lanes_of(devices, options);
  const int cores = options.cores > 0
                        ? options.cores
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int feeders = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (devices[d].kind != WorkDeviceKind::kCpu && !devices[d].emulated()) feeders += lanes[d];
  }
  // One more stays free: a parallel operation waits for its slowest thread, and the slowest is the
  // one that shares its core with a driver or a waiting caller.
  const int left = feeders > 0 ? cores - feeders - 1 : cores;
  std::vector<WorkDevice> all;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (int number = 0; number < lanes[d]; ++number) {
      WorkDevice& lane = all.emplace_back(devices[d]);
      lane.lane = number;
      lane.compute_threads = lane.kind == WorkDeviceKind::kCpu ? std::max(1, left) : 1;
    }
  }
  return all;
}

std::vector<std::size_t> row_caps(const WorkScheduler& scheduler, const DispatchOptions& options) {
  const std::span<const WorkDevice> devices = scheduler.devices();
  std::vector<std::size_t> caps(devices.size(), std::numeric_limits<std::size_t>::max());
  for (const auto& [name, bytes] : options.memory_caps) {
    const auto found = std::ranges::find(devices, name, &WorkDevice::name);
    if (found == devices.end()) {
      fail(ErrorCode::kInvalidArgument, "a memory cap for '{}', which is none of the devices: {}",
           name, listed(devices, &WorkDevice::name));
    }
    if (options.row_bytes == 0) {
      fail(ErrorCode::kInvalidArgument,
           "a memory cap for '{}' needs row_bytes, the memory that one row takes there", name);
    }
    const auto device = static_cast<std::size_t>(found - devices.begin());
    caps[device] = bytes / options.row_bytes;
    const std::size_t least = std::max<std::size_t>(1, scheduler.fixed_batch(device));
    if (caps[device] < least) {
      fail(ErrorCode::kInvalidArgument,
           "device '{}': {} rows of {} bytes do not fit under its memory cap of {} bytes", name,
           least, options.row_bytes, bytes);
    }
  }
  return caps;
}

}  // namespace harmonics::inline in_dispatch
