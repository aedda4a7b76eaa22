// The stages of a model in processes of their own, on this machine.
#pragma once

#include <vector>

#include <harmonics/options/text_commands.h>
#include <harmonics/schedule/token_pipeline.h>

namespace harmonics::inline in_text_program {

/// Starts a process for each part, layers [cuts[i], cuts[i + 1]), and waits until all can compute.
/// They die with it. One that dies shows as an Error (kUnavailable) of the next call; `renew`
/// starts all of them anew.
[[nodiscard]] TokenPipelinePtr make_process_pipeline(const HarmonicGraph& graph,
                                                     std::vector<std::size_t> cuts,
                                                     const TextModelFlags& flags);

}  // namespace harmonics::inline in_text_program
