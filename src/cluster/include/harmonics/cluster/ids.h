// The cluster's ids: a task, one try at it, a worker, a device of that worker, a session.
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include <harmonics/base/clock.h>
#include <harmonics/base/ids.h>

namespace harmonics::inline in_cluster {

/// A task. An array of n takes n numbers in a row, the first of which names the whole array.
using TaskId = Id<struct TaskTag>;
/// The how-manyth try at a task, from 1. (task, attempt) is what a worker is asked to start.
using AttemptNumber = Id<struct AttemptTag, std::uint32_t>;
/// A worker as the server counts them; people see its name (`WorkerSpec::name`).
using WorkerId = Id<struct WorkerTag, std::uint32_t>;
/// A device as its place in `WorkerSpec::devices`; people see its name there.
using DeviceId = Id<struct DeviceTag, std::uint16_t>;
/// Which life of a server, from 1; a later server (or a later start) has a larger one.
using Term = Id<struct TermTag, std::uint32_t>;
/// A fencing epoch: one session of one worker with one server. Larger is later, over all servers,
/// because the server's term stands in the upper half. Messages of an older epoch are refused.
using Epoch = Id<struct EpochTag>;
/// A caller's question, numbered by whoever feeds the reactor; comes back in the `Answer`.
using RequestId = Id<struct RequestTag>;

/// A moment: nanoseconds since 1970 that never run backwards while a process lives (wall time read
/// once, then counted on by the steady clock).
using Time = Nanoseconds;
/// Later than every moment.
inline constexpr Time kNever = Time::max();

/// How many devices one worker can offer.
inline constexpr std::size_t kMaxDevicesPerWorker = 64;

/// A set of devices of one worker.
struct DeviceSet {
  std::uint64_t bits = 0;

  bool operator==(const DeviceSet&) const = default;
  [[nodiscard]] bool has(DeviceId id) const { return (bits >> id.value & 1) != 0; }
  void add(DeviceId id) { bits |= std::uint64_t{1} << id.value; }
  [[nodiscard]] bool empty() const { return bits == 0; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(std::popcount(bits)); }
  [[nodiscard]] bool contains(DeviceSet other) const { return (other.bits & ~bits) == 0; }
  [[nodiscard]] bool meets(DeviceSet other) const { return (other.bits & bits) != 0; }
  [[nodiscard]] DeviceSet with(DeviceSet other) const { return {bits | other.bits}; }
  [[nodiscard]] DeviceSet without(DeviceSet other) const { return {bits & ~other.bits}; }
  /// Calls `visit(DeviceId)` in rising order.
  template <typename Visit>
  void each(Visit visit) const {
    for (std::uint64_t left = bits; left != 0; left &= left - 1) {
      visit(DeviceId{static_cast<std::uint16_t>(std::countr_zero(left))});
    }
  }
};

/// Devices 0 to count - 1.
[[nodiscard]] inline DeviceSet first_devices(std::size_t count) {
  return {count == 0 ? 0 : ~std::uint64_t{0} >> (kMaxDevicesPerWorker - count)};
}

/// One try of one task: what results are reported and refused by.
struct AttemptId {
  TaskId task;
  AttemptNumber attempt;
  auto operator<=>(const AttemptId&) const = default;
};

/// "17.2": task 17, second attempt.
[[nodiscard]] std::string to_string(AttemptId id);

}  // namespace harmonics::inline in_cluster
