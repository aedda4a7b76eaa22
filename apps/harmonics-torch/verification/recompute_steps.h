// harmonics verify --recompute: steps of a secure run, computed again and compared with its chain.
#pragma once

#include <cstddef>

#include <harmonics/options/commands.h>
#include <harmonics/verification/verification.h>

namespace harmonics::inline in_torch_program {

/// Computes what the command asks for, in `parts` parts, from its model, data and checkpoints.
/// Where a stage signed something else, a CustodyError (kWrongResult) names step, part, signer and,
/// where layers were signed, the layer; a checkpoint with other weights than those signed is
/// another (kWrongWeights).
[[nodiscard]] RecomputedSteps recompute_steps(const VerifyCommand& command,
                                              const Evidence& evidence, std::size_t parts);

}  // namespace harmonics::inline in_torch_program
