// The copies of a plan's stages: how they take turns, and which processes a run has.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/schedule/part_copies.h>

#include "inference_job.h"
#include "stage_flow.h"

namespace harmonics::inline in_torch_program {

/// One process of a run.
struct Seat {
  std::size_t part = 0;
  std::size_t copy = 0;
  auto operator<=>(const Seat&) const = default;
};

/// How the hosts of a part take turns, as the plan says; one copy where there is no plan.
[[nodiscard]] CopyTurns turns_of(const Plan& plan, std::size_t part);
[[nodiscard]] CopyTurns turns_of(const InferenceJob& job, std::size_t part);
/// What the process of that seat knows about copies; `parts` are those of the plan.
[[nodiscard]] PartCopies copies_of(const Plan& plan, const std::vector<HarmonicGraph>& parts,
                                   const Seat& seat);
[[nodiscard]] PartCopies copies_of(const InferenceJob& job, const Seat& seat);
/// All of them, by part and copy.
[[nodiscard]] std::vector<Seat> seats_of(const InferenceJob& job);
/// "part 1 of 3", with the copy and its host where there are several.
[[nodiscard]] std::string seat_text(const InferenceJob& job, const Seat& seat);
/// Seconds from one batch to the next that the plan says for one copy, which takes its share of
/// them.
[[nodiscard]] std::optional<double> planned_s(const InferenceJob& job, const Seat& seat);
/// Says in a flow which copy it is of, and what was planned for that.
void name_copy(StageFlow& flow, const InferenceJob& job, const Seat& seat);
/// Which copy --copy says. A part with several of which none is said, and one that is not there,
/// are an Error.
[[nodiscard]] Seat seat_of(const StageCommand& command, const Plan& plan);

}  // namespace harmonics::inline in_torch_program
