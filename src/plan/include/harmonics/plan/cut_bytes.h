// What crosses each cut of a model, in bytes per micro-batch.
#pragma once

#include <harmonics/plan/inputs.h>
#include <harmonics/plan/problem.h>

namespace harmonics::inline in_plan {

/// Sets `cut_bytes` and `tied_bytes` of a problem whose dtype and batch size are set. An unknown
/// dtype is an Error.
void set_cut_bytes(const ModelProfile& model, PlanProblem& problem);

}  // namespace harmonics::inline in_plan
