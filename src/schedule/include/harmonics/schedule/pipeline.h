// How the parts of a pipeline work together; in which order is plan's to say (pipeline_order.h).
#pragma once

#include <chrono>
#include <cstddef>

#include <harmonics/base/clock.h>
#include <harmonics/plan/pipeline_order.h>
#include <harmonics/transport/packing.h>

namespace harmonics::inline in_schedule {

/// The most parts that may work at the same time in one process, a thread each.
inline constexpr std::size_t kMaxPipelineParts = 1024;

struct PipelineOptions {
  PipelineOrder order = PipelineOrder::OneForwardOneBackward;
  /// The longest that a part waits for one tensor of another part; then the step is an Error that
  /// names part and boundary.
  Nanoseconds deadline = std::chrono::minutes(10);
  /// Bits of what crosses the boundaries, inside a process and between processes alike; a
  /// boundary's binding wins. Parameters of tied layers and tensors of integers are always exact.
  BoundaryPacking packing = {};
};

}  // namespace harmonics::inline in_schedule
