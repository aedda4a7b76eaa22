// --micro-batches auto: how many, measured on the machine that starts the run.
#pragma once

#include <functional>
#include <memory>

#include "training_job.h"

namespace harmonics::inline in_torch_program {

/// Makes what learns a job, with all of its parts in this process.
using MakeLearner = std::function<std::unique_ptr<Learner>(const TrainingJob& job)>;

/// Puts a number in the place of `auto`, into the job's settings and, for parts in processes of
/// their own, into its command; says which in a line. Steps are made with the job's data, by a
/// learner of one replica that is thrown away: nothing of them is in the run. Does nothing where a
/// number was given, or where the checkpoint that the run goes on from has one.
void settle_micro_batches(TrainingJob& job, const MakeLearner& make, const InterruptWatch& watch);

}  // namespace harmonics::inline in_torch_program
