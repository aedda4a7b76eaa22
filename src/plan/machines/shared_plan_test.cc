// Hosts that share a machine: what their stages cost each other, and plans that count it.
#include "shared_plan.h"

#include <gtest/gtest.h>

#include <harmonics/plan/machine_load.h>
#include <harmonics/plan/replan.h>
#include <harmonics/plan/report.h>
#include <harmonics/plan/request.h>

#include <error_testing.h>

#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

/// Six layers of a second each on hosts that are all alike, the first `sharing` on one machine.
PlanProblem tower(std::size_t hosts, std::size_t sharing, double cores) {
  PlanProblem problem;
  problem.layer_memory_mb.assign(6, 1);
  problem.cut_bytes.assign(7, 0);
  SharedMachine machine{"tower", cores, {}};
  for (std::size_t u = 0; u < hosts; ++u) {
    const std::string name = format("h{}", u);
    problem.classes.push_back({name, {name}, 1000, 1e6, std::vector<double>(6, 1), {}});
    if (u < sharing) machine.classes.push_back(u);
  }
  if (sharing > 0) problem.machines.push_back(machine);
  return problem;
}

TEST(SharedPlan, AMachineGivesNoMoreThanItsCores) {
  EXPECT_EQ(make_plan(tower(3, 0, 0), {}).period_s, 2);
  const PlanOutcome shared = make_plan(tower(3, 3, 2), {});
  EXPECT_EQ(shared.period_s, 3);  // six seconds on two cores
  EXPECT_EQ(shared.lower_bound_s, 2);
  EXPECT_FALSE(shared.proven);
  const PlanOutcome enough = make_plan(tower(3, 3, 3), {});
  EXPECT_EQ(enough.period_s, 2);
  EXPECT_TRUE(enough.proven);
}

TEST(SharedPlan, LayersGoToHostsThatAreAlone) {
  // Alone each of four would take 1.5 layers; two of them share a core.
  const PlanProblem problem = tower(4, 2, 1);
  const PlanOutcome outcome = make_plan(problem, {});
  EXPECT_EQ(outcome.period_s, 2);
  EXPECT_EQ(outcome.period_s, shared_period_of(problem, CostModel(problem, {}), outcome.placement));
}

TEST(SharedPlan, StagesThatKeepHalfACoreBusyCountHalf) {
  PlanProblem problem = tower(3, 3, 2);
  for (HostClass& one : problem.classes) one.cores = 0.5;
  EXPECT_EQ(make_plan(problem, {}).period_s, 2);
  for (HostClass& one : problem.classes) one.cores = 2;
  EXPECT_EQ(make_plan(problem, {}).period_s, 6);
}

// Against all plans of small problems: never better than the best, and proven only where equal.
TEST(SharedPlan, AgreesWithTryingEverythingOrSaysThatItIsNotProven) {
  int best_found = 0;
  int all = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "shared");
    PlanProblem problem = random_problem(random, {}, {5, 4, 1});
    std::erase_if(problem.classes, [](const HostClass& one) { return one.hosts.empty(); });
    SharedMachine machine{"m", 0.5 * static_cast<double>(1 + random.below(4)), {}};
    for (std::size_t u = 0; u < problem.classes.size(); ++u) {
      if (random.below(3) > 0) machine.classes.push_back(u);
    }
    problem.machines = {machine};
    const CostModel costs(problem, {});
    double best = std::numeric_limits<double>::infinity();
    for_each_plan({problem, {}}, false, [&](const Placement& plan, double) {
      best = std::min(best, shared_period_of(problem, costs, plan));
    });
    const PlanOutcome outcome = make_plan(problem, {});
    EXPECT_GE(outcome.period_s, best - 1e-9);
    EXPECT_LE(outcome.lower_bound_s, best + 1e-9);
    EXPECT_EQ(outcome.period_s, shared_period_of(problem, costs, outcome.placement));
    EXPECT_TRUE(!outcome.proven || std::abs(outcome.period_s - best) < 1e-9);
    EXPECT_LE(outcome.period_s, 2 * best + 1e-9);
    ++all;
    best_found += outcome.period_s <= best + 1e-9 ? 1 : 0;
  }
  EXPECT_GT(best_found, all * 8 / 10);
}

TEST(SharedPlan, TheReportNamesTheMachineAndReplanningCountsIt) {
  const PlanProblem problem = tower(3, 3, 2);
  PlanOutcome outcome = make_plan(problem, {});
  const Plan plan = name_hosts(problem, outcome.placement);
  const PlanReport report = make_report(problem, {}, std::move(outcome), plan);
  for (const PlannedStage& stage : report.stages) {
    EXPECT_EQ(stage.machine, "tower");
    EXPECT_EQ(stage.machine_s, 3);
    EXPECT_EQ(stage.costs.period_s, 3);
  }
  const Json json = report_to_json(report);
  EXPECT_EQ(json.at("stages").as_array().at(0).at("machine").as_string(), "tower");
  EXPECT_EQ(json.find("in_flight"), nullptr);
  EXPECT_EQ(replan(problem, {}, plan, {}).outcome.period_s, 3);
  EXPECT_EQ(plan_fallbacks(problem, {}, plan).at(0).period_s, 3);
}

TEST(SharedPlan, MachinesThatMakeNoSenseAreAnError) {
  PlanProblem problem = tower(3, 3, 0);
  expect_error(ErrorCode::kInvalidArgument, "machine 'tower'",
               [&] { static_cast<void>(make_plan(problem, {})); });
  problem = tower(3, 3, 2);
  problem.machines.push_back(problem.machines.front());
  expect_error(ErrorCode::kInvalidArgument, "each on one machine",
               [&] { static_cast<void>(make_plan(problem, {})); });
}

TEST(LinkLatency, CountsOnTheWayAndNotInThePeriod) {
  PlanInputs inputs;
  inputs.models["m"] = {{1, 1}, 100, {1 << 20, 1}};
  inputs.types["t"] = {1024, 1000, {{"m", {{1, "torch.float32", {1, 1}}}}}};
  inputs.hosts = {{"t", {"a", "b"}}};
  inputs.links.rules = {{"a", "b", 32, 2500}};
  PlanRequest request{.model = "m", .batch_size = 1};
  const PlanProblem problem = make_problem(inputs, request);
  PlannerOptions options;
  PlanOutcome outcome = make_plan(problem, options);
  EXPECT_EQ(outcome.period_s, 1);  // 4 MiB at 4 MiB/s take as long as a layer
  EXPECT_EQ(outcome.latency_s, 2 + 1 + 2.5);
  const Plan plan = name_hosts(problem, outcome.placement);
  const PlanReport report = make_report(problem, options, std::move(outcome), plan);
  EXPECT_EQ(report.stages.at(0).costs.latency_s, 2.5);
  // Sent in 1 s, there and back in 5 s, computed in 1 s: seven batches are under way.
  EXPECT_EQ(report.in_flight, 14u);
  EXPECT_EQ(report_to_json(report).at("in_flight").as_integer(), 14);
  options.goal = PlanGoal::kLatency;
  EXPECT_EQ(make_plan(problem, options).latency_s, 2) << "one host is the quicker way";
  inputs.links.rules.front().latency_ms = 0;
  EXPECT_TRUE(make_problem(inputs, request).link_latency_s.empty());
}

}  // namespace
}  // namespace harmonics::inline in_plan
