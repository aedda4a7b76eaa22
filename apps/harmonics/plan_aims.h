// What 'harmonics plan' does for other aims than one fast pipeline.
#pragma once

#include <optional>

#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>
#include <harmonics/plan/front.h>

namespace harmonics::inline in_front {

/// Seconds; infinite without one.
[[nodiscard]] double deadline_of(const PlanCommand& command);

/// The plan for --goal cost or energy, or for a deadline; nothing where neither was asked for.
[[nodiscard]] std::optional<AimOutcome> aim_of(const PlanCommand& command,
                                               const PlanProblem& problem,
                                               const PlannerOptions& options);

/// --front: prints it, and draws it where that was asked for.
void show_front(const PlanCommand& command, const PlanProblem& problem,
                const PlannerOptions& options);

/// --pipelines: prints the plan and writes the parts of each pipeline where that was asked for: one
/// row into the folder itself, several into pipeline-1, pipeline-2, … within it. A flow has no
/// parts, and is an `Error` then.
void plan_several(const PlanCommand& command, const HarmonicGraph& graph,
                  const PlanProblem& problem, const PlannerOptions& options);

}  // namespace harmonics::inline in_front
