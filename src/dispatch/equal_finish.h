// How many rows each device should take so that all finish together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace harmonics::inline in_dispatch {

/// A device that can take rows: from `ready_s` on, each row takes `row_s`.
struct Taker {
  double ready_s = 0;
  double row_s = 1;
};

struct EqualFinish {
  /// When all of them are done.
  double time_s = 0;
  /// Rows of each; 0 for a device that would be ready too late to help.
  std::vector<double> rows;
};

/// Shares out `rows` so that the last device is done as early as possible: the water level over the
/// devices' ready times. There is at least one taker, with finite numbers and row_s > 0.
[[nodiscard]] EqualFinish equal_finish(std::span<const Taker> takers, double rows);

}  // namespace harmonics::inline in_dispatch
