// Which steps of a run an audit computes again: pure functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <harmonics/schedule/recompute.h>

namespace harmonics::inline in_schedule {

/// The stretches of a run of so many steps between its start and its checkpoints, by step.
[[nodiscard]] std::vector<AuditStretch> stretches_between(
    const std::map<std::uint64_t, std::filesystem::path>& checkpoints, std::uint64_t steps);

struct StretchChoice {
  /// In the order of the run; one that is not needed to its end is cut off.
  std::vector<AuditStretch> stretches;
  /// What was drawn with; empty: nothing was drawn.
  std::string seed;
};

/// What `how` asks for: "all"; steps counted from 1, "5,10-20"; "sample=N", so many steps that are
/// drawn; "1%", whole stretches that are drawn until they hold that share of all steps. The draw is
/// a function of `seed` and the run's length alone; an empty seed is chance, which the choice then
/// tells. Whoever computed the run must not have known it. Anything else is an Error.
[[nodiscard]] StretchChoice choose_stretches(const std::vector<AuditStretch>& all,
                                             const std::string& how, const std::string& seed);

}  // namespace harmonics::inline in_schedule
