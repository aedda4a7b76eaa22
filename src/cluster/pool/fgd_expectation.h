// Which tasks are expected to come, as those that came tell, and how much of what is free on a
// worker they cannot use: the measure of fragmentation gradient descent.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <harmonics/cluster/worker_pool.h>

namespace harmonics::inline in_cluster {

/// Kinds of tasks that are told apart; what comes beyond that does not count.
inline constexpr std::size_t kMaxFgdKinds = 96;

/// What a kind of tasks needs of devices.
struct FgdKind {
  std::uint32_t gpus = 0;
  std::uint32_t share = kWholeDevice;
  std::uint64_t memory_mb = 0;
  std::vector<std::string> models{};
  auto operator<=>(const FgdKind&) const = default;
};
[[nodiscard]] FgdKind fgd_kind(const Needs& needs);

/// Devices of workers that look alike, and which of them suit each kind.
struct FgdShape {
  std::vector<DeviceSpec> devices{};
  std::vector<DeviceSet> suits{};  ///< By number of the kind.
};

/// What is free of a worker's devices, in the order of its spec, and of its cores.
struct FgdRooms {
  std::array<std::uint32_t, kMaxDevicesPerWorker> of{};
  std::size_t devices = 0;
  std::uint32_t cpus = 0;
};
[[nodiscard]] FgdRooms fgd_rooms(const Worker& worker);

/// The tasks that came, by kind and cores. What is expected of them is looked at anew now and then,
/// so that it stays the same in between.
class FgdExpectation {
 public:
  /// The number of the kind, a new one maybe; kMaxFgdKinds: there are too many.
  std::size_t kind(const FgdKind& key);
  /// A task of that kind came.
  void count(std::size_t kind, std::uint32_t cpus);
  /// Whether so much has come that what is expected was looked at anew.
  bool look();
  /// Brings `shape.suits` up to the kinds that there are.
  void add_kinds(FgdShape& shape) const;
  /// How much of the free devices is expected to be of no use, in units of kWholeDevice.
  [[nodiscard]] float fragmentation(const FgdRooms& rooms, const FgdShape& shape) const;

 private:
  struct Kind {
    FgdKind key{};
    std::map<std::uint32_t, std::uint64_t> cores{};  ///< How many came that need so many.
    // As they were when last looked at.
    float weight = 0;
    std::vector<float> per_core{};  ///< One over the cores; 0: it needs none.
    std::vector<float> weights{};
  };
  static float useless_for(const Kind& kind, const FgdRooms& rooms, DeviceSet suits, float total);

  std::vector<Kind> kinds_;
  std::map<FgdKind, std::size_t> numbers_;
  std::uint64_t counted_ = 0;
  std::uint64_t next_look_ = 1;
};

}  // namespace harmonics::inline in_cluster
