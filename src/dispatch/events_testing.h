// Runs on emulated devices without threads: the books and the scheduler as shipped, driven by a
// queue of events. Thousands of runs a second, the same on every machine.
#pragma once

#include <optional>
#include <vector>

#include <harmonics/base/error.h>

#include "scheduler_testing.h"

namespace harmonics::inline in_dispatch {

/// Seconds that `rows` take on the scheduler's emulated devices, one lane each. What is late then
/// is left alone.
inline double event_seconds(WorkScheduler& scheduler, std::size_t rows) {
  struct Piece {
    Claim claim;
    Nanoseconds end;
  };
  RunState state = state_of(scheduler);
  std::vector<std::optional<Piece>> at_work(scheduler.devices().size());
  std::vector<std::size_t> assigned;
  Nanoseconds now{0};
  state.begin({0, rows}, now);
  for (;;) {
    assigned.clear();
    state.refill(now, assigned);
    std::size_t next = at_work.size();
    for (std::size_t d = 0; d < at_work.size(); ++d) {
      const WorkDevice& device = scheduler.devices()[d];
      if (!at_work[d] && state.has_queued(d)) {
        const Claim claim = state.start(d, now);
        if (scheduler.repeats()) state.loaded(d, claim);
        at_work[d] = {claim, now + device.latency + emulated_row_time(device, claim.rows.size())};
      }
      if (at_work[d] && (next == at_work.size() || at_work[d]->end < at_work[next]->end)) next = d;
    }
    if (state.over()) break;
    now = at_work[next]->end;
    const Claim& claim = at_work[next]->claim;
    state.finish(next, claim, now, !scheduler.repeats() || state.commit(next, claim));
    at_work[next].reset();
  }
  state.end(now);
  state.rethrow();
  if (state.done_rows() != rows) fail(ErrorCode::kDataLoss, "rows are missing");
  return in_seconds(now);
}

}  // namespace harmonics::inline in_dispatch
