// A plan beside what its run measured: how far off it was, and why.
#pragma once

#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/plan/measured_run.h>

namespace harmonics::inline in_plan {

/// What a plan had wrong.
enum class PlanFault {
  /// Layers take longer or shorter than was profiled.
  kCompute,
  /// Stages waited for cores that others had.
  kContention,
  /// A link is slower or faster than the files say.
  kLink,
  /// Neither binds: too few batches were under way to cover the time until a batch is answered.
  kInFlight,
};
/// "compute", "contention", "link", "in flight".
[[nodiscard]] std::string_view fault_name(PlanFault fault);

struct RunFinding {
  PlanFault fault = PlanFault::kCompute;
  /// The stage, from 0.
  std::size_t stage = 0;
  /// Seconds a batch; what was planned is 0 for contention where none was.
  double planned_s = 0;
  double measured_s = 0;
  /// In words: what was found, and what to do.
  std::string what;
  std::string advice;
};

struct RunCheck {
  MeasuredRun run;
  /// The share by which a figure may differ.
  double tolerance = 0.1;
  double planned_period_s = 0;
  /// Of the last stage: what comes out.
  double measured_period_s = 0;
  std::vector<RunFinding> findings;

  /// measured / planned - 1.
  [[nodiscard]] double error() const { return measured_period_s / planned_period_s - 1; }
  [[nodiscard]] bool holds() const;
};

/// Compares; a difference is found where it is larger than the tolerance and matters for the period
/// by as much. A plan without a period is an Error.
[[nodiscard]] RunCheck check_run(MeasuredRun run, double tolerance);
[[nodiscard]] Json check_to_json(const RunCheck& check);

}  // namespace harmonics::inline in_plan
