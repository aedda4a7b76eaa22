// The stages of a model on other machines, where `harmonics stage --generate` waits.
#pragma once

#include <harmonics/options/text_commands.h>
#include <harmonics/schedule/token_pipeline.h>

namespace harmonics::inline in_text_program {

/// Meets all parts of the plan. A part that goes away shows as an Error of the next call; `renew`
/// waits until all are there again, up to --first-contact, and finds their caches empty.
[[nodiscard]] TokenPipelinePtr make_remote_pipeline(const HarmonicGraph& graph,
                                                    const TextModelFlags& flags);

}  // namespace harmonics::inline in_text_program
