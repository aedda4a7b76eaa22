// harmonics run --listen: a model that stays up and answers requests.
#pragma once

#include <harmonics/options/commands.h>

#include "interrupt.h"

namespace harmonics::inline in_torch_program {

/// Serves until a signal comes: then what was taken is finished, nothing else is taken, and it ends
/// with kExitDone. An address that must not be listened on is wrong usage.
int serve_model(const RunCommand& command, InterruptWatch& watch);

}  // namespace harmonics::inline in_torch_program
