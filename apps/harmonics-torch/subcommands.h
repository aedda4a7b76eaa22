// The subcommands that need libtorch; each lies in the file of its name. They print to standard
// output, give the exit code, and fail by throwing an Error.
#pragma once

#include <harmonics/options/commands.h>

namespace harmonics {

int train(const TrainCommand& command);
int run(const RunCommand& command);
int quantize(const QuantizeCommand& command);
int profile(const ProfileCommand& command);
/// What libtorch there is, as one JSON object; asked by `harmonics doctor`.
int probe();

}  // namespace harmonics
