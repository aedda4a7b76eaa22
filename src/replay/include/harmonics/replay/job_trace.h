// Jobs and machines of a trace, out of CSV files (docs/formats/trace-csv.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/worker.h>

namespace harmonics::inline in_replay {

inline constexpr std::size_t kMaxTraceJobs = 2'000'000;
inline constexpr std::size_t kMaxTraceBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMaxTraceLineBytes = 4096;
inline constexpr std::size_t kMaxTraceColumns = 64;

/// The whole of one GPU, and of one core.
inline constexpr std::uint32_t kWholeMilli = 1000;

/// One job. What a trace does not say stays as it is here.
struct TraceJob {
  Nanoseconds arrival{};                  ///< After the first job of the trace.
  Nanoseconds duration = kNever;          ///< kNever: it stays.
  std::uint32_t gpus = 0;                 ///< In all; more than one machine has makes it a gang.
  std::uint32_t gpu_milli = kWholeMilli;  ///< Of each of them.
  std::uint32_t cpu_milli = 0;
  std::uint64_t memory_mb = 0;
  std::int32_t priority = 0;
  std::string gpu_models{};  ///< "V100|P100"; empty: any.
  std::string user{};
};

enum class TraceFormat : std::uint8_t {
  kPlain,   ///< arrival_s, duration_s, gpus ...
  kPhilly,  ///< timestamp, duration, num_gpus, gpu_time, cluster
  kPods,    ///< name, cpu_milli, memory_mib, num_gpu, gpu_milli ... of the FGD study
};
[[nodiscard]] std::string_view to_string(TraceFormat format);

struct Trace {
  TraceFormat format = TraceFormat::kPlain;
  std::vector<TraceJob> jobs{};  ///< By arrival; those of one moment as the file has them.
};

/// Reads a trace; its format shows in the first line. Errors (kInvalidArgument) name file and line.
[[nodiscard]] Trace read_trace(const std::filesystem::path& path);
[[nodiscard]] Trace parse_trace(std::string_view text, std::string_view where);

/// Machines out of a file: sn or name, cpu_milli, memory_mib, gpu, model. Cores count in
/// hundredths: a machine of 2 cores has 200 of `cpus`.
[[nodiscard]] std::vector<WorkerSpec> read_nodes(const std::filesystem::path& path);
[[nodiscard]] std::vector<WorkerSpec> parse_nodes(std::string_view text, std::string_view where);
/// "64x8": so many machines of so many GPUs each, with cores and memory that never run out.
[[nodiscard]] std::vector<WorkerSpec> equal_nodes(std::string_view text);

}  // namespace harmonics::inline in_replay
