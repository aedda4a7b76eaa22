// What an emulated device is busy with.
#pragma once

#include <algorithm>
#include <mutex>

#include <harmonics/dispatch/device.h>

namespace harmonics::inline in_dispatch {

/// Computes one sub-batch at a time. With several lanes a sub-batch's latency (its copy) passes
/// while another one computes, as it does on a GPU with several streams. Thread safe.
class EmulatedEngine {
 public:
  /// When a sub-batch that was handed over at `submitted` is done.
  Nanoseconds book(const WorkDevice& device, std::size_t rows, Nanoseconds submitted,
                   bool overlaps) {
    const std::lock_guard lock(mutex_);
    const Nanoseconds start = overlaps ? std::max(submitted + device.latency, free_at_)
                                       : std::max(submitted, free_at_) + device.latency;
    free_at_ = start + emulated_row_time(device, rows);
    return free_at_;
  }

 private:
  std::mutex mutex_;
  Nanoseconds free_at_{0};
};

}  // namespace harmonics::inline in_dispatch
