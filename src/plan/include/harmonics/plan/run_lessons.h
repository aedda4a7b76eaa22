// Learning from a run: the planner's files corrected by what was measured.
#pragma once

#include <string>
#include <vector>

#include <harmonics/plan/inputs.h>
#include <harmonics/plan/measured_run.h>

namespace harmonics::inline in_plan {

/// Changes the inputs so that the run's plan, planned with them, takes what was measured:
/// - the times of a stage's layers on its device type are scaled so that they add up to what it
///   computed; those of layers that no stage of the type ran, by the type's own share of all;
/// - a link that was measured becomes a rule between its two hosts, in place of one that was there,
///   and types whose own bandwidth is below what was measured get that;
/// - hosts whose stages ran on one machine share it, with as many cores as the stages keep busy.
/// Doing it again changes nothing. Gives a line for each change. A model, batch size, dtype or host
/// that the inputs lack, and layers that are not theirs, are an Error.
std::vector<std::string> learn_from_run(PlanInputs& inputs, const MeasuredRun& run);

}  // namespace harmonics::inline in_plan
