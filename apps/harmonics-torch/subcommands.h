// The subcommands that need libtorch; each lies in the file of its name. They print to standard
// output, give the exit code, and fail by throwing an Error.
#pragma once

#include <harmonics/options/commands.h>

namespace harmonics::inline in_torch_program {

/// How a stage that `harmonics train --processes` started ends when it lost another one.
inline constexpr int kExitLostOthers = 75;

int train(const TrainCommand& command);
int stage(const StageCommand& command);
int run(const RunCommand& command);
int quantize(const QuantizeCommand& command);
int profile(const ProfileCommand& command);
int dispatch_sweep(const DispatchSweepCommand& command);
int devices(const DevicesCommand& command);
/// With a graph, weights or data to compare the chain with.
int verify(const VerifyCommand& command);
/// With --weights.
int custody_export(const CustodyExportCommand& command);
/// What libtorch there is, as one JSON object; asked by `harmonics doctor`.
int probe();

}  // namespace harmonics::inline in_torch_program
