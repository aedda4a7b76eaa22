// StaticHybridScheduler and SimpleScheduler: sub-batches of sizes that the user states.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <harmonics/dispatch/scheduler.h>

namespace harmonics::inline in_dispatch {

/// What a StaticHybridScheduler is made of. Each list has one entry per device, or one for all.
struct StaticHybridConfig {
  std::vector<std::string> devices;
  std::vector<std::size_t> batch_sizes;
  /// Rows that a device may hold at a time; empty: its batch size, one sub-batch at a time.
  std::vector<std::size_t> capacities = {};
  /// Empty: all equal. Of devices with equal priorities the one listed first comes first.
  std::vector<double> priorities = {};
};

/// Greedy: each sub-batch goes to the device of the highest priority whose load leaves room for its
/// batch size under its capacity. Wrong configurations (a capacity below the batch size, a size of
/// zero, a device twice or unknown, lists of other lengths, a priority that is no number) are an
/// Error (kInvalidArgument).
class StaticHybridScheduler : public WorkScheduler {
 public:
  explicit StaticHybridScheduler(StaticHybridConfig config);
  StaticHybridScheduler(std::vector<std::string> devices, std::vector<std::size_t> batch_sizes,
                        std::vector<std::size_t> capacities = {},
                        std::vector<double> priorities = {})
      : StaticHybridScheduler(StaticHybridConfig{std::move(devices), std::move(batch_sizes),
                                                 std::move(capacities), std::move(priorities)}) {}

  [[nodiscard]] std::span<const WorkDevice> devices() const override { return devices_; }
  [[nodiscard]] std::size_t fixed_batch(std::size_t device) const override {
    return batch_sizes_[device];
  }
  [[nodiscard]] std::optional<WorkAssignment> assign(const RunView& view) override;

  [[nodiscard]] std::size_t capacity(std::size_t device) const { return capacities_[device]; }

 private:
  std::vector<WorkDevice> devices_;
  std::vector<std::size_t> batch_sizes_;
  std::vector<std::size_t> capacities_;
  /// Devices by falling priority.
  std::vector<std::size_t> order_;
};

/// One device: sub-batches of `batch_size` rows until `capacity` rows are there (0: as many as one
/// sub-batch has).
class SimpleScheduler : public StaticHybridScheduler {
 public:
  SimpleScheduler(const std::string& device, std::size_t batch_size, std::size_t capacity = 0)
      : StaticHybridScheduler(
            {device}, {batch_size},
            capacity == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{capacity}) {}
};

}  // namespace harmonics::inline in_dispatch
