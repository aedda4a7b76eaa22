// The reports of a run, as `plan --check` and `profile --from-run` are given them.
#pragma once

#include <string>
#include <vector>

#include <harmonics/plan/measured_run.h>

namespace harmonics::inline in_front {

inline constexpr std::size_t kMaxRunReportBytes = std::size_t{64} << 20;

/// Reads these files. One that is missing or no report is an Error that names it.
[[nodiscard]] MeasuredRun read_measured_run(const std::vector<std::string>& files);

}  // namespace harmonics::inline in_front
