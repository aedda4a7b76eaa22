// Which of the two programs that generate text a command is for.
#pragma once

#include <harmonics/options/text_commands.h>
#include <harmonics/programs/programs.h>

namespace harmonics::inline in_front {

/// harmonics-text, which has no libtorch; harmonics-text-torch, where it is there, for a GPU that
/// is asked for, and for kAuto if this machine has a driver of CUDA.
[[nodiscard]] const SiblingProgram& text_program(TextBackend backend);

}  // namespace harmonics::inline in_front
