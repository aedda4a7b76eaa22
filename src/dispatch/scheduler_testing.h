// What the tests of schedulers share.
#pragma once

#include <string>
#include <vector>

#include <harmonics/dispatch/scheduler.h>

#include <error_testing.h>

#include "run_state.h"

namespace harmonics::inline in_dispatch {

/// The books of a scheduler whose devices have no memory caps and one lane each.
inline RunState state_of(WorkScheduler& scheduler) {
  const std::size_t count = scheduler.devices().size();
  return {scheduler, std::vector(count, DeviceLoad{}.room_rows), std::vector<int>(count, 1)};
}

inline std::vector<std::size_t> rows_of(const RunState& state) {
  std::vector<std::size_t> rows;
  for (const DeviceLoad& load : state.loads()) rows.push_back(load.rows());
  return rows;
}

}  // namespace harmonics::inline in_dispatch
