// harmonics stage --infer: one part of a stream in this process, the other parts in others.
#pragma once

#include <harmonics/options/commands.h>

#include "interrupt.h"
#include "stage_events.h"

namespace harmonics::inline in_torch_program {

/// Streams until the data ends, from the beginning again as often as other parts go away, up to the
/// limit; what came out before is not written again. Prints the report and gives the exit code.
/// `events` tells whoever started it.
int infer_part(const StageCommand& command, InterruptWatch& watch, StageEvents& events);

}  // namespace harmonics::inline in_torch_program
