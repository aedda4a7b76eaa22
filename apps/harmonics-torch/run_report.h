// What a run of inference ends with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <harmonics/base/json.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_torch_program {

/// How many rows are shown.
inline constexpr std::int64_t kShownRows = 10;
/// How many numbers of one row are shown in a table.
inline constexpr std::size_t kShownNumbers = 6;

struct RunReport {
  std::string graph;
  std::int64_t rows = 0;
  double seconds = 0;
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

  /// Counts a batch and keeps rows of its outputs while few are kept.
  void add_rows(const NamedTensors& outputs, std::int64_t count);
};

[[nodiscard]] Json report_json(const RunReport& report);
[[nodiscard]] std::string report_text(const RunReport& report, bool colour);

}  // namespace harmonics::inline in_torch_program
