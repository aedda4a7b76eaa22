// The profiler: what each unit of a graph costs on this machine.
//
// docs: README_Profiler.md says exactly what is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <harmonics/base/clock.h>
#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/place/profile_result.h>

namespace harmonics::inline in_place {

inline constexpr int kMaxProfileRepeats = 10'000;
inline constexpr std::int64_t kMaxProfileBatch = std::int64_t{1} << 20;

/// A machine on which passes wait for a core for more than this share of their time is busy.
inline constexpr double kBusyShare = 0.1;
inline constexpr int kBusyFactor = 4;

/// How to measure.
struct ProfileOptions {
  ProfileMode mode = ProfileMode::kInference;
  /// What computes. A backend that this machine lacks is an Error: the CPU's times under a GPU's
  /// name would be worse than none.
  Backend backend = Backend::CPU;
  std::optional<std::uint32_t> device_index = std::nullopt;
  /// Samples of a micro-batch.
  std::int64_t batch_size = 8;
  /// torch.float32 (full precision), torch.bfloat16 or torch.float16 (mixed; the latter on a GPU).
  std::string dtype = "torch.float32";
  /// Passes before the first one that counts, and passes that count.
  int warmup = 2;
  int repeats = 5;
  /// Threads inside one operation; 0 leaves libtorch's choice. Process-wide.
  int threads = 0;
  /// How long this thread has waited for a core so far, as a CoreClock tells; on the CPU what a
  /// pass waited is not counted. Where units wait for more than kBusyShare of their time, up to
  /// kBusyFactor times as many passes are measured. Empty: nothing is known of it.
  std::function<Nanoseconds()> waited = {};
  /// Training: what the optimiser keeps per weight, and the micro-batches in flight.
  TrainingMemory training = {};
};

/// Called before each unit is measured (index from 0), and once at the end with `units`.
using ProfileProgress =
    std::function<void(std::size_t index, std::size_t units, const std::string& name)>;

/// Measures unit after unit, each cut out of the graph and run alone on synthetic inputs; only one
/// unit's weights are in memory at a time. `clock` gives the time. One thread. Errors: a graph that
/// is not resolved or has no layers, training without a tap, options out of range, a backend or
/// dtype that cannot be had here.
[[nodiscard]] GraphProfile profile_graph(const HarmonicGraph& graph, const ProfileOptions& options,
                                         const Clock& clock, const ProfileProgress& progress = {});

}  // namespace harmonics::inline in_place
