// What a run of inference ends with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/options/output_style.h>
#include <harmonics/runtime/stage.h>

#include "stage_flow.h"

namespace harmonics::inline in_torch_program {

/// How many rows are shown.
inline constexpr std::int64_t kShownRows = 10;
/// How many numbers of one row are shown in a table.
inline constexpr std::size_t kShownNumbers = 6;

/// For what a run was planned.
struct RunPlan {
  std::string model;
  std::string dtype;
  std::int64_t batch_size = 0;
};

struct RunReport {
  std::string graph;
  /// Where the plan's report says what each stage takes.
  std::optional<RunPlan> plan = std::nullopt;
  std::int64_t rows = 0;
  double seconds = 0;
  /// Of these, with parts in processes of their own, which had to be started: until the first batch
  /// came out, whose rows these are, and from then until the last one did.
  double starting = 0;
  std::int64_t starting_rows = 0;
  double streaming = 0;
  /// Where all targets were bound.
  std::optional<double> loss;
  std::optional<double> accuracy;
  /// The first rows of each consumer.
  NamedTensors first_rows;
  /// Files that were written, by consumer.
  std::map<std::string, std::string> files;
  /// Of a secure run: what its parts signed last, a line each, and the file of the chain if it was
  /// kept.
  std::string proof;
  std::string chain;
  /// What each part did with its time.
  std::vector<StageFlow> stages;
  /// How often processes were started again.
  std::int64_t restarts = 0;

  /// Counts a batch and keeps rows of its outputs while few are kept.
  void add_rows(const NamedTensors& outputs, std::int64_t count);
  /// Rows a second once the parts had started.
  [[nodiscard]] double rate() const;
};

[[nodiscard]] Json report_json(const RunReport& report);
[[nodiscard]] std::string report_text(const RunReport& report, bool colour);
/// On standard output, in that style.
void print_report(const RunReport& report, OutputStyle style);

}  // namespace harmonics::inline in_torch_program
