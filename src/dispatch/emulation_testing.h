// A batch whose result shows every row, and runs of it on emulated devices under simulated time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/dispatch/work_dispatcher.h>

namespace harmonics::inline in_dispatch {

/// What row `index` comes to: any row lost, doubled or out of place changes the result.
inline std::uint64_t row_value(std::size_t index) {
  std::uint64_t x = index + 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 27);
}

using Rows = std::vector<std::uint64_t>;
using RowDispatcher = WorkDispatcher<Slice, Rows, Rows>;

inline Rows rows_of_slice(const Slice& slice) {
  Rows rows;
  rows.reserve(slice.size());
  for (std::size_t i = slice.start; i < slice.stop; ++i) rows.push_back(row_value(i));
  return rows;
}

inline Rows join(std::vector<Rows>&& parts) {
  Rows all;
  for (const Rows& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Takes no memory per row: for long simulated runs. The result is the number of rows.
using CountDispatcher = WorkDispatcher<Slice, std::size_t, std::size_t>;

/// A fault: called with the slice and device before the sub-batch is computed.
using Fault = std::function<void(const Slice&, const WorkDevice&)>;

inline CountDispatcher::Functions counting(Fault fault = nullptr) {
  return {.run =
              [fault = std::move(fault)](Slice&& slice, const WorkDevice& device) {
                if (fault) fault(slice, device);
                return slice.size();
              },
          .reduce =
              [](std::vector<std::size_t>&& parts) {
                std::size_t sum = 0;
                for (const std::size_t part : parts) sum += part;
                return sum;
              }};
}

/// Rows per second of all devices together.
inline double full_rate(const WorkScheduler& scheduler) {
  double rate = 0;
  for (const WorkDevice& device : scheduler.devices()) rate += device.rows_per_second;
  return rate;
}

/// Simulated seconds that a run over `rows` takes.
inline double simulated_seconds(WorkScheduler& scheduler, std::size_t rows, Fault fault = nullptr,
                                std::shared_ptr<Timeline> timeline = nullptr) {
  if (!timeline) timeline = std::make_shared<SimulatedTimeline>();
  CountDispatcher dispatcher(scheduler, counting(std::move(fault)), {.timeline = timeline});
  SliceGenerator slices(0, rows);
  const Nanoseconds start = timeline->now();
  if (dispatcher.run(slices) != rows) fail(ErrorCode::kDataLoss, "rows are missing");
  return in_seconds(timeline->now() - start);
}

}  // namespace harmonics::inline in_dispatch
