// harmonics train --processes: a process for each part, on this machine.
#pragma once

#include <harmonics/options/commands.h>

#include "training_job.h"

namespace harmonics::inline in_torch_program {

/// Starts this program once for each part (`harmonics stage`), watches over the parts, and reports
/// as one process would. A part that fails ends all of them with its error; one that is killed
/// makes all start again from the last checkpoint, up to `restarts` times. No process is left,
/// however this ends. A signal is passed on to the parts, which come to an end together and save;
/// if they cannot (Error, kCancelled) the last checkpoint holds.
int train_in_processes(const TrainingJob& job, InterruptWatch& watch);

}  // namespace harmonics::inline in_torch_program
