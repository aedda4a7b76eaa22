#include <harmonics/dispatch/static_hybrid_scheduler.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <harmonics/base/error.h>

namespace harmonics::inline in_dispatch {

StaticHybridScheduler::StaticHybridScheduler(StaticHybridConfig config)
    : devices_(parse_work_devices(config.devices)) {
  const std::size_t count = devices_.size();
  batch_sizes_ = broadcast(std::move(config.batch_sizes), count, "batch sizes");
  capacities_ = config.capacities.empty()
                    ? batch_sizes_
                    : broadcast(std::move(config.capacities), count, "capacities");
  const std::vector<double> priorities =
      config.priorities.empty() ? std::vector<double>(count, 1.0)
                                : broadcast(std::move(config.priorities), count, "priorities");
  for (std::size_t d = 0; d < count; ++d) {
    if (batch_sizes_[d] == 0) {
      fail(ErrorCode::kInvalidArgument, "device '{}': a batch size of 0 never does anything",
           devices_[d].name);
    }
    if (capacities_[d] < batch_sizes_[d]) {
      fail(ErrorCode::kInvalidArgument,
           "device '{}': a capacity of {} rows never holds a sub-batch of {}; make it at least {}",
           devices_[d].name, capacities_[d], batch_sizes_[d], batch_sizes_[d]);
    }
    if (!std::isfinite(priorities[d])) {
      fail(ErrorCode::kInvalidArgument, "device '{}': its priority is not a finite number",
           devices_[d].name);
    }
  }
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, std::ranges::greater{},
                           [&](std::size_t d) { return priorities[d]; });
}

std::optional<WorkAssignment> StaticHybridScheduler::assign(const RunView& view) {
  if (view.left_rows == 0) return std::nullopt;
  for (const std::size_t d : order_) {
    const DeviceLoad& load = view.devices[d];
    if (load.rows() + batch_sizes_[d] > capacities_[d]) continue;
    const std::size_t rows = std::min(batch_sizes_[d], view.left_rows);
    if (rows > load.room_rows) continue;
    return WorkAssignment{.device = d, .rows = rows};
  }
  return std::nullopt;
}

}  // namespace harmonics::inline in_dispatch
