#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <harmonics/plan/replan.h>
#include <harmonics/plan/request.h>

#include <error_testing.h>

#include "host_match.h"
#include "plan_testing.h"
#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

double worth_of(const std::vector<std::vector<double>>& worth,
                const std::vector<std::size_t>& host_of) {
  double sum = 0;
  for (std::size_t slot = 0; slot < host_of.size(); ++slot) sum += worth[slot][host_of[slot]];
  return sum;
}

TEST(HostMatch, IsTheBestOfAllAssignments) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed, "match");
    const std::size_t slots = 1 + random.below(5);
    const std::size_t hosts = slots + random.below(3);
    std::vector<std::vector<double>> worth(slots, std::vector<double>(hosts));
    for (auto& row : worth) {
      for (double& one : row) one = static_cast<double>(random.below(6));
    }
    const std::vector<std::size_t> found = match_hosts(worth);
    EXPECT_EQ(std::set(found.begin(), found.end()).size(), slots);
    std::vector<std::size_t> order(hosts);
    for (std::size_t k = 0; k < hosts; ++k) order[k] = k;
    double best = 0;
    do {
      best = std::max(best, worth_of(worth, {order.begin(), order.begin() + slots}));
    } while (std::ranges::next_permutation(order).found);
    EXPECT_DOUBLE_EQ(worth_of(worth, found), best) << "seed " << seed;
  }
}

TEST(HostMatch, BeyondItsLimitItIsStillAnAssignment) {
  for (const std::size_t slots : {kMaxExactSlots, kMaxExactSlots + 1}) {
    std::vector<std::vector<double>> worth(slots, std::vector<double>(slots + 1, 0));
    for (std::size_t k = 0; k < slots; ++k) worth[k][slots - k] = 5;
    const std::vector<std::size_t> found = match_hosts(worth);
    EXPECT_EQ(std::set(found.begin(), found.end()).size(), slots);
    EXPECT_DOUBLE_EQ(worth_of(worth, found), 5.0 * static_cast<double>(slots));
  }
  EXPECT_TRUE(match_hosts({}).empty());
}

PlanProblem example() { return make_problem(example_inputs(), {}); }

TEST(Fallbacks, PlanForTheLossOfOneHostOfEachType) {
  const PlanProblem problem = example();
  const Plan plan = name_hosts(problem, make_plan(problem, {}).placement);
  const std::vector<FallbackPlan> fallbacks = plan_fallbacks(problem, {}, plan);
  ASSERT_EQ(fallbacks.size(), 2u);
  EXPECT_EQ(fallbacks[0].lost_host, "mb-3");
  EXPECT_EQ(fallbacks[1].lost_host, "rcc-3");
  const double nominal = make_plan(problem, {}).period_s;
  for (const FallbackPlan& one : fallbacks) {
    ASSERT_TRUE(one.plan);
    EXPECT_TRUE(one.proven);
    EXPECT_GT(one.period_s, nominal);
    for (const PlanStage& stage : one.plan->stages) {
      EXPECT_NE(stage.hosts.front(), one.lost_host);
    }
    const Placement placement = place_plan(problem, *one.plan);
    EXPECT_NEAR((NaiveCosts{problem, {}}.period_s(placement)), one.period_s, 1e-9);
    EXPECT_DOUBLE_EQ(one.moved_mb, moved_megabytes(problem.layer_memory_mb, plan, *one.plan));
  }
}

TEST(Fallbacks, AnIdleHostIsNoLossAndTheLastHostIsOne) {
  PlanProblem problem = example();
  problem.classes[1].hosts = {"rcc-0"};
  for (double& seconds : problem.classes[0].layer_time_s) seconds = 1000;
  problem.classes[0].hosts = {"mb-0", "mb-1"};
  problem.classes[0].memory_mb = 200;
  const Plan plan = name_hosts(problem, make_plan(problem, {}).placement);
  ASSERT_EQ(plan.stages.size(), 1u);
  const std::vector<FallbackPlan> fallbacks = plan_fallbacks(problem, {}, plan);
  EXPECT_EQ(*fallbacks[0].plan, plan);
  EXPECT_EQ(fallbacks[0].moved_mb, 0);
  EXPECT_FALSE(fallbacks[1].plan);
  EXPECT_NE(fallbacks[1].reason.find("memory"), std::string::npos) << fallbacks[1].reason;
}

TEST(Replan, StaysWhenMovingDoesNotPay) {
  const PlanProblem problem = example();
  const Plan current = parse_plan(
      "- mb-0: [1, 6]\n- mb-1: [7, 12]\n- mb-2: [13, 18]\n- mb-3: [19, 24]\n"
      "- rcc-0: [25, 30]\n- rcc-1: [31, 36]\n- rcc-2: [37, 42]\n- rcc-3: [43, 48]\n",
      "current");
  const ReplanOutcome dear =
      replan(problem, {}, current, {.seconds_per_mb = 100, .horizon_batches = 10});
  EXPECT_TRUE(dear.stays);
  EXPECT_EQ(dear.plan, current);
  EXPECT_EQ(dear.moved_mb, 0);
  const ReplanOutcome free =
      replan(problem, {}, current, {.seconds_per_mb = 0, .horizon_batches = 10});
  EXPECT_FALSE(free.stays);
  EXPECT_TRUE(free.outcome.proven);
  EXPECT_NEAR(free.outcome.period_s, 1.539864, 5e-7);
  const ReplanOutcome middle =
      replan(problem, {}, current, {.seconds_per_mb = 0.01, .horizon_batches = 100});
  EXPECT_LE(middle.total_s, 100 * 1.745397);
  EXPECT_LE(middle.total_s, 100 * free.outcome.period_s + 0.01 * free.moved_mb + 1e-9);
  EXPECT_LT(middle.moved_mb, free.moved_mb);
  EXPECT_DOUBLE_EQ(middle.moved_mb, moved_megabytes(problem.layer_memory_mb, current, middle.plan));
}

TEST(Replan, APlanWithALostHostOnlyTellsWhatLiesWhere) {
  PlanRequest request;
  request.excluded_hosts = {"rcc-3"};
  const PlanProblem problem = make_problem(example_inputs(), request);
  const Plan current = name_hosts(example(), make_plan(example(), {}).placement);
  const ReplanOutcome outcome = replan(problem, {}, current, {});
  EXPECT_FALSE(outcome.stays);
  EXPECT_TRUE((NaiveCosts{problem, {}}.valid(place_plan(problem, outcome.plan))));
  EXPECT_GT(outcome.moved_mb, 0);
  EXPECT_LT(outcome.moved_mb, 1200) << "what lies right stays";
}

TEST(Replan, RespectsAFixedOrder) {
  PlanRequest request;
  request.host_order = {"rcc-0", "mb-0", "rcc-1"};
  const PlanProblem problem = make_problem(example_inputs(), request);
  const Plan current = parse_plan("- mb-0: [1, 16]\n- rcc-0: [17, 32]\n- rcc-1: [33, 48]\n", "c");
  const ReplanOutcome outcome = replan(problem, {}, current, {.seconds_per_mb = 1000});
  EXPECT_FALSE(outcome.stays);
  EXPECT_TRUE((NaiveCosts{problem, {}}.valid(place_plan(problem, outcome.plan))));
}

TEST(Replan, RefusesCostsThatMakeNoSense) {
  const PlanProblem problem = example();
  EXPECT_NE(error_of([&] { static_cast<void>(replan(problem, {}, {}, {.seconds_per_mb = -1})); }),
            "");
  EXPECT_NE(error_of([&] { static_cast<void>(replan(problem, {}, {}, {.horizon_batches = 0})); }),
            "");
}

}  // namespace
}  // namespace harmonics::inline in_plan
