// SharedScheduler: several processes of one node use the same devices.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/dispatch/scheduler.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/share/lease_table.h>

namespace harmonics::inline in_dispatch {

enum class SharedMode {
  /// Each process computes on the devices itself, a sub-batch at a time, when it is its turn.
  kLease,
  /// One owner computes for all of them and merges their rows (see SharedBatcher): no turns.
  kMerge,
};

/// The same in all processes but for `weight`.
struct SharedConfig {
  /// What the processes share, by a name of their own: letters, digits, '.', '_' and '-'.
  std::string name;
  /// At most kMaxSharedDevices (16).
  std::vector<std::string> devices;
  /// Sizes per device, or one for all.
  std::vector<std::size_t> batch_sizes;
  /// Rows of all processes together that a device may hold; empty: the batch size, so that one
  /// sub-batch is computed at a time.
  std::vector<std::size_t> capacities = {};
  /// This process's share relative to others: with 2 it gets twice the rows of one with 1.
  double weight = 1;
  SharedMode mode = SharedMode::kLease;
  /// A turn that does not come in so long is an Error (kDeadlineExceeded) that names the holders.
  Nanoseconds lease_timeout = std::chrono::minutes(10);
};

/// For MPI ranks or any processes of one user on one machine, over a segment of shared memory.
/// Before each sub-batch a lane waits for a lease of the device; those who wait are served fairly
/// by rows, and what a process held that has died is given back within a second. Up to 64 processes
/// share a name. Wrong configurations, and other settings than those of the processes that are
/// already there, are an Error.
class SharedScheduler final : public StaticHybridScheduler {
 public:
  explicit SharedScheduler(SharedConfig config);
  ~SharedScheduler() override;

  bool enter(std::size_t device, std::size_t rows) override;
  void leave(std::size_t device, std::size_t rows) override;

  /// Rows that all processes hold of a device now.
  [[nodiscard]] std::size_t held_rows(std::size_t device) const;

 private:
  std::unique_ptr<LeaseTable> leases_;
  Nanoseconds timeout_;
};

}  // namespace harmonics::inline in_dispatch
