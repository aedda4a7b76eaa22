// The files of a plan: what each host runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/plan/plan.h>

namespace harmonics::inline in_front {

/// Writes plan.yml and one stage-<number>-<host>.harp per stage (the first host's name where
/// several take turns), and removes stage-*.harp files of an earlier plan from the folder, which is
/// made if it is not there. Each file appears whole or not at all, plan.yml last. The names of all
/// files.
[[nodiscard]] std::vector<std::string> write_plan_files(const std::filesystem::path& folder,
                                                        const Plan& plan,
                                                        const std::vector<HarmonicGraph>& parts);

/// An Error for a file of measurements or hosts that is not there, which says where it comes from.
void expect_plan_inputs(const PlanCommand& command);

/// An Error unless the model was measured, with as many layers as the graph has units.
void check_planned_layers(const PlanInputs& inputs, const std::string& model,
                          const PlanCommand& command, const HarmonicGraph& graph);

}  // namespace harmonics::inline in_front
