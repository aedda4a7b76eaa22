// Who may use how much of which device at the moment, over all processes of a node.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <harmonics/base/clock.h>

#include <harmonics/share/shared_segment.h>

namespace harmonics::inline in_share {

/// The most devices that processes share under one name.
inline constexpr std::size_t kMaxSharedDevices = 16;

struct SharedDevice {
  std::string name;
  /// Rows of all processes together.
  std::size_t capacity_rows = 0;
};

/// Fair queueing by rows: of those who wait, the one goes first that has had the least, counted in
/// rows over weight (start-time fair queueing, Goyal et al., SIGCOMM 1996); one that comes late
/// starts level with the others. The first in line is never overtaken, so that large requests do
/// not starve. A process that dies loses its place and gives back what it held, at the latest
/// kCheckInterval after someone waits for it.
///
/// Threads: any; those of one process wait for one device one after the other.
class LeaseTable {
 public:
  static constexpr Nanoseconds kCheckInterval = std::chrono::milliseconds(50);

  /// All processes must name the same devices and capacities. Errors as SharedSegment's.
  LeaseTable(const std::string& name, const std::vector<SharedDevice>& devices, double weight);

  /// Waits for `rows` of a device. No turn in time is an Error (kDeadlineExceeded) that names those
  /// who hold the device.
  void acquire(std::size_t device, std::size_t rows, Nanoseconds timeout);
  void release(std::size_t device, std::size_t rows);

  /// Rows that living processes hold of a device.
  [[nodiscard]] std::size_t held_rows(std::size_t device);

 private:
  struct Line;
  struct DeviceRecord;
  struct Board;
  [[nodiscard]] Board& board() const;
  void repair();
  void bury_dead(std::size_t device);
  [[nodiscard]] Line* next_in_line(std::size_t device);
  [[nodiscard]] double start_of(std::size_t device, const Line& line) const;
  [[nodiscard]] Nanoseconds kept_for_another(std::size_t device) const;
  void grant(std::size_t device);
  [[nodiscard]] std::string holders(std::size_t device);
  void give_up(std::size_t device);

  std::vector<SharedDevice> devices_;
  double weight_;
  SharedSegment segment_;
  std::unique_ptr<std::mutex[]> turns_;
};

}  // namespace harmonics::inline in_share
