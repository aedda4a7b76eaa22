// What a worker offers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/needs.h>

namespace harmonics::inline in_cluster {

inline constexpr std::size_t kMaxWorkers = 20'000;
inline constexpr std::size_t kMaxWorkerTextBytes = 256;

/// One accelerator of a worker.
struct DeviceSpec {
  std::string name{};   ///< As the worker's `--gpus` calls it; unique in the worker.
  std::string model{};  ///< For instance "RTX3090".
  std::uint64_t memory_mb = 0;
  bool operator==(const DeviceSpec&) const = default;
};

/// A worker as it describes itself.
struct WorkerSpec {
  std::string name{};     ///< Empty in a hello: the server picks worker-1, worker-2 ...
  std::string address{};  ///< Where it serves logs.
  std::vector<DeviceSpec> devices{};
  std::uint32_t cpus = 0;
  std::uint64_t memory_mb = 0;
  /// Drawn once for the worker's state folder. A worker that comes back with another identity has
  /// lost its records, so what it ran before counts as lost.
  std::string identity{};
  /// It cannot run stages of pipelines: these are to speak TLS, and its tasks run as a user who
  /// cannot read its key.
  bool no_stages = false;
  ResourceCounts resources{};  ///< What else it has, counted.
  TextPairs labels{};          ///< What tasks may ask of it.
  bool operator==(const WorkerSpec&) const = default;
};

/// Throws an `Error` (kInvalidArgument) for too many devices, a name used twice, too long a text.
void check_worker(const WorkerSpec& spec);

/// A text whose plain order is the natural order of names: digits compare as numbers, so worker-2
/// stands before worker-10. Names that differ only in leading zeros have the same key.
[[nodiscard]] std::string natural_key(std::string_view name);
/// Natural order, and plain order between names of the same key: total on texts.
[[nodiscard]] bool natural_less(std::string_view left, std::string_view right);

}  // namespace harmonics::inline in_cluster
