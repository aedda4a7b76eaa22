// What the stages of a pipeline did when: the lines that `submit --trace` and HARMONICS_PASS_TRACE
// keep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <harmonics/base/json.h>

namespace harmonics::inline in_front {

/// A stage's trace is at most this large; as many files are read at most.
inline constexpr std::size_t kMaxPassTraceBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMaxTracedStages = 256;

/// One pass of one micro-batch through one stage; seconds since 1970.
struct TracedPass {
  bool forward = true;
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
  double begin_s = 0;
  double end_s = 0;
};

struct TracedStage {
  /// The file's name without its folder and ending.
  std::string name;
  std::vector<TracedPass> passes;
};

/// Reads one file per stage, in order of their names with numbers counted as numbers; a folder
/// stands for all `*.jsonl` in it. A line that is no pass is an Error (kInvalidArgument) that names
/// file and line, except an unfinished last one, which a killed process leaves.
[[nodiscard]] std::vector<TracedStage> read_pass_traces(
    const std::vector<std::filesystem::path>& files);

/// Only passes of these steps, both included. None left is an Error that says which steps there
/// are.
[[nodiscard]] std::vector<TracedStage> steps_between(std::vector<TracedStage> stages,
                                                     std::int64_t first, std::int64_t last);

/// When the first pass begins and the last one ends.
struct TraceSpan {
  double begin_s = 0;
  double end_s = 0;
};
[[nodiscard]] TraceSpan span_of(const std::vector<TracedStage>& stages);

/// For Perfetto (ui.perfetto.dev) and chrome://tracing: a row per stage, a slice per pass.
[[nodiscard]] std::string perfetto_json(const std::vector<TracedStage>& stages);

/// A picture: a row per stage, time to the right, a colour per micro-batch, backward passes
/// lighter.
[[nodiscard]] std::string pass_trace_svg(const std::vector<TracedStage>& stages);

}  // namespace harmonics::inline in_front
