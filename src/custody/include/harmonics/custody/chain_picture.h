// A picture of a chain: who did what, when.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <harmonics/custody/chain.h>
#include <harmonics/custody/verify.h>

namespace harmonics::inline in_custody {

/// The most stages that are drawn, and the most hand-overs of the step that is drawn large.
inline constexpr std::size_t kMaxDrawnStages = 64;
inline constexpr std::size_t kMaxDrawnHandOvers = 48;

/// SVG: a row per stage in the order of the flow, coloured by signer. Above, what each signed in
/// every step (in several, where they are too many) and where it announced weights; below, the
/// hand-overs of `step` one by one, in an order that the records allow. Chains hold no clock: time
/// is steps, and within a step what came before what. `report` is what verify_chain gave for
/// `chains`. A step that the run does not have, or too many stages, is an Error.
[[nodiscard]] std::string chain_svg(std::span<const Chain> chains, const VerifyReport& report,
                                    std::uint64_t step);

}  // namespace harmonics::inline in_custody
