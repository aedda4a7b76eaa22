// What a planned run measured: the report of `harmonics run`, or those of its stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/plan/placement.h>

namespace harmonics::inline in_plan {

/// The most stages and links that the reports of one run may tell of.
inline constexpr std::size_t kMaxMeasuredStages = 1024;
inline constexpr std::size_t kMaxMeasuredLinks = 4096;

/// A boundary from one stage to another.
struct MeasuredLink {
  /// Number of the stage that takes it.
  std::size_t to = 0;
  double latency_s = 0;
  double bytes_per_s = 0;
};

/// One stage; times are seconds per batch.
struct MeasuredStage {
  std::string part;
  std::size_t number = 0;
  std::vector<std::string> hosts;
  /// Counted from 1, both ends included.
  std::size_t first_layer = 0;
  std::size_t last_layer = 0;
  std::int64_t batches = 0;
  /// From one batch to the next.
  double period_s = 0;
  /// Computing, and of that: waiting for a core, and on a core.
  double busy_s = 0;
  double for_core_s = 0;
  double cpu_s = 0;
  double for_input_s = 0;
  double for_room_s = 0;
  double bytes_sent = 0;
  /// Threads inside its operations; 0: as many as there are cores.
  std::int64_t threads = 0;
  /// Equal for stages on one machine; empty: not known.
  std::string machine;
  double cores = 0;
  std::vector<MeasuredLink> links;
  StageCosts planned;

  /// Computing, without what others on the machine cost it.
  [[nodiscard]] double compute_s() const { return busy_s - for_core_s; }
  /// Seconds to send what it sends in a batch over its links; 0 where they were not measured.
  [[nodiscard]] double transfer_s() const;
};

struct MeasuredRun {
  std::string model;
  std::string dtype;
  std::int64_t batch_size = 0;
  /// In their order; all of the plan.
  std::vector<MeasuredStage> stages;
};

/// A report's text, and its name in errors.
struct RunText {
  std::string text;
  std::string name;
};

/// Reads the report of a run, or one of each stage. A text that is none, of a run without a plan's
/// times, of another plan than the first, or stages that are missing or there twice are an Error
/// (kInvalidArgument) that names the file.
[[nodiscard]] MeasuredRun parse_measured_run(std::span<const RunText> texts);

}  // namespace harmonics::inline in_plan
