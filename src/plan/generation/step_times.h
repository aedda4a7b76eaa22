// What a step takes that nobody measured, from those that somebody did.
#pragma once

#include <span>
#include <vector>

#include <harmonics/plan/inputs.h>

namespace harmonics::inline in_plan {

/// Whether there is what a plan needs: a step of decoding and one of a single sequence.
[[nodiscard]] bool has_step_times(std::span<const TokenTimes> measured);

/// Seconds of each layer for a step of so many rows, of sequences that hold so many tokens:
/// decoding, a token of each sequence; else tokens of one.
[[nodiscard]] std::vector<double> step_times(std::span<const TokenTimes> measured, bool decodes,
                                             double rows, double context);

}  // namespace harmonics::inline in_plan
