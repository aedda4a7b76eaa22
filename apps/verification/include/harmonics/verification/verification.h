// harmonics verify, from files to what is printed. Comparing with models needs libtorch and lies in
// harmonics-torch; everything else is here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <harmonics/custody/verify.h>
#include <harmonics/options/commands.h>
#include <harmonics/verification/evidence.h>

namespace harmonics::inline in_verification {

/// Steps that were computed again and found as they were signed.
struct RecomputedSteps {
  std::uint64_t steps = 0;
  std::uint64_t of = 0;
  /// Stretches between checkpoints that were looked at, and how many there are.
  std::uint64_t stretches = 0;
  std::uint64_t of_stretches = 0;
  /// What they were drawn with; empty: they were not drawn.
  std::string seed;
};

/// What else was found to be the chain's.
struct ComparedModel {
  /// The file of graphs, and of weights; empty: not compared.
  std::string graph;
  std::string weights;
  /// The step at which all stages announced these weights, and the last such step.
  std::uint64_t weights_step = 0;
  std::uint64_t last_step = 0;
  std::optional<RecomputedSteps> recomputed = std::nullopt;
};

/// Verifies the chains, the tensors in the command's folder, its proof lines, and what statements
/// say. `options` may hold more to check.
[[nodiscard]] VerifyReport verify_evidence(const VerifyCommand& command, const Evidence& evidence,
                                           VerifyOptions options = {});
/// Prints what was found in the command's style, and gives the exit code.
int print_verification(const VerifyCommand& command, const VerifyReport& report,
                       const ComparedModel& compared = {});

}  // namespace harmonics::inline in_verification
