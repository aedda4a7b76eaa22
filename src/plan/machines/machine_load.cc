#include <harmonics/plan/machine_load.h>

#include <algorithm>

namespace harmonics::inline in_plan {

std::vector<double> machine_loads_s(const PlanProblem& problem, const CostModel& costs,
                                    std::span<const PlacedStage> stages) {
  std::vector<double> loads;
  for (const SharedMachine& machine : problem.machines) {
    double& load = loads.emplace_back(0);
    for (const PlacedStage& stage : stages) {
      const std::size_t u = stage.host_class;
      if (std::ranges::find(machine.classes, u) == machine.classes.end()) continue;
      load += costs.compute_s(u, stage.first_cut, stage.last_cut) * problem.classes[u].cores;
    }
    load /= machine.cores;
  }
  return loads;
}

double shared_period_of(const PlanProblem& problem, const CostModel& costs,
                        std::span<const PlacedStage> stages) {
  double slowest = period_of(costs, stages);
  for (const double load : machine_loads_s(problem, costs, stages)) {
    slowest = std::max(slowest, load);
  }
  return slowest;
}

const SharedMachine* machine_of(const PlanProblem& problem, std::size_t host_class) {
  for (const SharedMachine& machine : problem.machines) {
    if (std::ranges::find(machine.classes, host_class) != machine.classes.end()) return &machine;
  }
  return nullptr;
}

}  // namespace harmonics::inline in_plan
