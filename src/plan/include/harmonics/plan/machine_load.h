// What the stages of a plan ask of machines that several hosts stand for.
#pragma once

#include <span>
#include <vector>

#include <harmonics/plan/placement.h>
#include <harmonics/plan/problem.h>

namespace harmonics::inline in_plan {

/// For each machine of the problem, seconds from one micro-batch to the next that its cores need:
/// the compute of its stages times the cores that each keeps busy, over the machine's cores. No
/// plan's period is shorter. Empty where nothing is shared.
[[nodiscard]] std::vector<double> machine_loads_s(const PlanProblem& problem,
                                                  const CostModel& costs,
                                                  std::span<const PlacedStage> stages);

/// The slowest stage, or the busiest machine: seconds from one finished micro-batch to the next.
[[nodiscard]] double shared_period_of(const PlanProblem& problem, const CostModel& costs,
                                      std::span<const PlacedStage> stages);

/// The machine of a class of hosts; nothing where it has its cores for itself.
[[nodiscard]] const SharedMachine* machine_of(const PlanProblem& problem, std::size_t host_class);

}  // namespace harmonics::inline in_plan
