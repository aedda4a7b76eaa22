// The files of a plan: what each host runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/plan/plan.h>

namespace harmonics::inline in_front {

/// Writes plan.yml and one stage-<number>-<host>.harp per stage (the first host's name where
/// several take turns), and removes stage-*.harp files of an earlier plan from the folder, which is
/// made if it is not there. Each file appears whole or not at all, plan.yml last. The names of all
/// files.
[[nodiscard]] std::vector<std::string> write_plan_files(const std::filesystem::path& folder,
                                                        const Plan& plan,
                                                        const std::vector<HarmonicGraph>& parts);

}  // namespace harmonics::inline in_front
