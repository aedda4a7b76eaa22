// From devices and options to lanes: how many each device has, and what each is told.
#pragma once

#include <span>
#include <vector>

#include <harmonics/dispatch/engine.h>

namespace harmonics::inline in_dispatch {

/// Lanes of each device. A count out of 0..kMaxLanes is an Error (kInvalidArgument).
[[nodiscard]] std::vector<int> lanes_of(std::span<const WorkDevice> devices,
                                        const DispatchOptions& options);

/// One entry per lane, those of a device together, with `lane` and `compute_threads` set: the
/// CPU's lane leaves a core to each lane that feeds an accelerator.
[[nodiscard]] std::vector<WorkDevice> lane_devices(std::span<const WorkDevice> devices,
                                                   const DispatchOptions& options);

/// The most rows that each device may hold under its memory cap. A cap for an unknown device, one
/// without `row_bytes`, or one below a scheduler's fixed sub-batch is an Error (kInvalidArgument).
[[nodiscard]] std::vector<std::size_t> row_caps(const WorkScheduler& scheduler,
                                                const DispatchOptions& options);

}  // namespace harmonics::inline in_dispatch
