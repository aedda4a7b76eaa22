// An operator graph with everything that must stay together drawn together: what the searches see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <harmonics/plan/operator_graph.h>
#include <harmonics/plan/operator_plan.h>

namespace harmonics::inline in_plan {

using Unit = std::uint32_t;

/// A tensor between units; several with the same ends are one.
struct UnitTensor {
  Unit producer = 0;
  std::vector<Unit> consumers;  // ascending, without the producer, not empty
  double bytes = 0;

  bool operator==(const UnitTensor&) const = default;
};

/// Units are numbered so that none comes before one that it needs.
struct UnitGraph {
  std::vector<std::vector<std::size_t>> nodes;  // operators of each unit
  std::size_t devices = 0;
  std::vector<double> time_s;  // at [unit * devices + device]
  std::vector<double> memory_mb;
  std::vector<std::vector<Unit>> before;  // what must not come later, directly
  std::vector<std::vector<Unit>> after;
  std::vector<UnitTensor> tensors;
  std::vector<std::vector<std::uint32_t>> touching;  // tensors that a unit makes or takes

  [[nodiscard]] std::size_t size() const { return nodes.size(); }
  [[nodiscard]] double time(Unit unit, std::size_t device) const {
    return time_s[unit * devices + device];
  }
};

/// Draws co-location classes together, operators without a time that have one neighbour only where
/// memory cannot forbid it (in no plan do these gain by standing elsewhere), and for contiguous
/// splits classes that depend on each other both ways. Units of a free split have no order.
[[nodiscard]] UnitGraph make_units(const OperatorGraph& graph, OperatorSplit split);

/// What a device is to the searches.
struct DeviceLimits {
  std::size_t hosts = 0;
  double memory_mb = 0;
  double s_per_byte = 0;
};
[[nodiscard]] std::vector<DeviceLimits> device_limits(const OperatorGraph& graph);

}  // namespace harmonics::inline in_plan
