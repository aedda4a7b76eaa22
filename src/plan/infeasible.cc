#include "infeasible.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <harmonics/base/error.h>

#include "plan_builder.h"
#include "search/period_search.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::uint64_t kExplainWork = 5'000'000;

std::string no_hosts(const PlanProblem& problem) {
  return format(
      "no host can run '{}': none that is listed and not excluded is of a device type that was "
      "measured for {} and batch size {}",
      problem.model, problem.dtype, problem.batch_size);
}

// Layers that no host can run even alone: the one that needs most.
std::optional<std::string> lone_layer(const PlanProblem& problem, const CostModel& costs) {
  std::optional<std::string> reason;
  double most = -1;
  for (std::size_t i = 0; i < costs.layers(); ++i) {
    bool fits = false;
    std::optional<std::size_t> largest;
    for (std::size_t u = 0; u < costs.classes(); ++u) {
      if (problem.classes[u].hosts.empty()) continue;
      fits |= costs.allowed(u, i, i + 1);
      const std::vector<bool>& barred = problem.classes[u].barred;
      if (!barred.empty() && barred[i]) continue;
      if (!largest || costs.capacity_bytes(u) > costs.capacity_bytes(*largest)) largest = u;
    }
    if (fits) continue;
    if (!largest) return format("layer {} is pinned to hosts that are not available", i + 1);
    const double needed = costs.memory_bytes(i, i + 1);
    if (needed <= most) continue;
    most = needed;
    reason = format(
        "memory: layer {} with its buffers needs {:.1f} MB, but the largest device that may run it "
        "('{}') has {:.1f} MB and must have more than is needed",
        i + 1, needed / kBytesPerMegabyte, problem.classes[*largest].type,
        costs.capacity_bytes(*largest) / kBytesPerMegabyte);
  }
  return reason;
}

std::string memory_totals(const PlanProblem& problem) {
  double layers = 0;
  double devices = 0;
  std::size_t hosts = 0;
  for (const double memory : problem.layer_memory_mb) layers += memory;
  for (const HostClass& one : problem.classes) {
    devices += one.memory_mb * static_cast<double>(one.hosts.size());
    hosts += one.hosts.size();
  }
  return format(
      "memory: the layers take {:.1f} MB and every stage its buffers besides; the {} hosts have "
      "{:.1f} MB in all",
      layers, hosts, devices);
}

bool feasible_when(const PlanProblem& problem, const PlannerOptions& options,
                   const std::function<void(PlanProblem&)>& change) {
  PlanProblem changed = problem;
  change(changed);
  const CostModel costs(changed, options.costs);
  const StageGraphBuilder builder = builder_for(changed, costs, options.replicate);
  WorkBudget budget(kExplainWork);
  return !find_least_period({builder, options.replicate}, budget).placement.empty();
}

}  // namespace

std::string explain_infeasible(const PlanProblem& problem, const PlannerOptions& options,
                               bool proven) {
  if (problem.classes.empty()) return no_hosts(problem);
  const std::string start = proven ? "no feasible plan: " : "no plan was found: ";
  const CostModel costs(problem, options.costs);
  if (const auto layer = lone_layer(problem, costs)) return start + *layer;
  const auto without_memory = [](PlanProblem& changed) {
    for (HostClass& one : changed.classes) one.memory_mb = 1e12;
  };
  const auto without_pins = [](PlanProblem& changed) {
    for (HostClass& one : changed.classes) one.barred.clear();
  };
  const auto with_network = [](PlanProblem& changed) {
    changed.link_mbps.clear();
    for (HostClass& one : changed.classes) one.bandwidth_mbps = 1e9;
  };
  // A network that works at all never makes a plan impossible, only slow.
  if (feasible_when(problem, options, with_network)) {
    return start + "the network: layers must be spread over hosts whose bandwidth is 0";
  }
  if (feasible_when(problem, options, without_pins)) {
    return start + "the pinned layers need more hosts, or in another order, than there are";
  }
  if (feasible_when(problem, options, without_memory)) return start + memory_totals(problem);
  return start + memory_totals(problem) +
         "; with enough memory there would still be too few hosts for the pins, the order or the "
         "network";
}

}  // namespace harmonics::inline in_plan
