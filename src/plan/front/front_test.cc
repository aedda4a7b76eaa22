#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <harmonics/plan/front.h>

#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

constexpr double kRounded = 1e-6;

// All placements with one host to a stage, by themselves.
std::vector<AimedPlan> all_plans(const PlanProblem& problem) {
  const CostModel costs(problem, {});
  std::vector<AimedPlan> plans;
  std::vector<std::size_t> left;
  for (const HostClass& one : problem.classes) left.push_back(one.hosts.size());
  Placement at;
  const std::function<void(std::size_t)> go = [&](std::size_t cut) {
    if (cut == problem.layers()) {
      plans.push_back(aimed_plan(problem, {}, at));
      return;
    }
    for (std::size_t u = 0; u < left.size(); ++u) {
      if (left[u] == 0) continue;
      --left[u];
      for (std::size_t j = cut + 1; j <= problem.layers(); ++j) {
        if (!costs.allowed(u, cut, j)) continue;
        at.push_back({cut, j, u, 1});
        go(j);
        at.pop_back();
      }
      ++left[u];
    }
  };
  go(0);
  return plans;
}

PlanProblem drawn_with_prices(Random& random, int round) {
  PlanProblem problem = random_problem(
      random,
      {.tight_memory = round % 3 == 1, .tight_network = round % 4 == 2, .links = round % 6 == 5},
      {.most_layers = 5, .most_classes = 3, .most_hosts = 2});
  for (HostClass& one : problem.classes) {
    one.price_per_hour = 0.5 * static_cast<double>(1 + random.below(9));
    one.watts = 10.0 * static_cast<double>(1 + random.below(9));
  }
  problem.batch_size = static_cast<std::int64_t>(1 + random.below(8));
  return problem;
}

double least_of(const std::vector<AimedPlan>& plans, PlanAim aim, double deadline) {
  double least = std::numeric_limits<double>::infinity();
  for (const AimedPlan& plan : plans) {
    if (plan.latency_s <= deadline) least = std::min(least, plan.value(aim));
  }
  return least;
}

TEST(Front, FiguresFollowFromPricesAndWatts) {
  PlanProblem problem;
  problem.batch_size = 4;
  problem.layer_memory_mb = {1, 1};
  problem.cut_bytes = {0, 0, 0};
  problem.classes.push_back({.type = "a",
                             .hosts = {"a-0"},
                             .bandwidth_mbps = 100,
                             .memory_mb = 100,
                             .layer_time_s = {2, 2},
                             .barred = {},
                             .price_per_hour = 3.6,
                             .watts = 50});
  const AimedPlan plan = aimed_plan(problem, {}, {{0, 2, 0, 1}});
  // 4 s a micro-batch of 4 samples: a second each, for 0.001 of the currency and 50 J.
  EXPECT_DOUBLE_EQ(plan.cost_per_sample, 0.001);
  EXPECT_DOUBLE_EQ(plan.joules_per_sample, 50);
  EXPECT_EQ(plan.binds, "compute of layers 1-2 on a-0");
}

TEST(Front, EveryAimIsTheLeastOfAllPlans) {
  Random random(3, "aims");
  int looked_at = 0;
  for (int round = 0; round < 120; ++round) {
    const PlanProblem problem = drawn_with_prices(random, round);
    const std::vector<AimedPlan> plans = all_plans(problem);
    if (plans.empty()) continue;
    for (const PlanAim aim :
         {PlanAim::kPeriod, PlanAim::kLatency, PlanAim::kHosts, PlanAim::kCost, PlanAim::kEnergy}) {
      const double least = least_of(plans, aim, std::numeric_limits<double>::infinity());
      if (!std::isfinite(least)) continue;  // nothing but links without bandwidth
      const AimOutcome found = plan_for_aim(problem, aim, {});
      const std::string where = format("round {}, {}", round, plan_aim_name(aim));
      ASSERT_NEAR(found.plan.value(aim), least, kRounded * least) << where;
      ASSERT_LE(found.lower_bound, least * (1 + kRounded)) << where;
      ASSERT_TRUE(found.proven) << where;
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 300);
}

TEST(Front, ADeadlineIsKeptOrRefused) {
  Random random(9, "deadlines");
  int kept = 0;
  int refused = 0;
  for (int round = 0; round < 80; ++round) {
    const PlanProblem problem = drawn_with_prices(random, round);
    const std::vector<AimedPlan> plans = all_plans(problem);
    const double quickest =
        least_of(plans, PlanAim::kLatency, std::numeric_limits<double>::infinity());
    if (!std::isfinite(quickest) || quickest == 0) continue;
    const AimOptions options{.deadline_s = quickest * (round % 4 == 0 ? 0.9 : 1.2)};
    if (round % 4 == 0) {
      EXPECT_THROW((void)plan_for_aim(problem, PlanAim::kCost, options), NoFeasiblePlan);
      EXPECT_THROW((void)plan_front(problem, options), NoFeasiblePlan);
      ++refused;
      continue;
    }
    const double least = least_of(plans, PlanAim::kPeriod, options.deadline_s);
    const AimOutcome fast = plan_for_aim(problem, PlanAim::kPeriod, options);
    ASSERT_LE(fast.plan.latency_s, options.deadline_s);
    ASSERT_NEAR(fast.plan.period_s, least, kRounded * least) << "round " << round;
    const AimOutcome cheap = plan_for_aim(problem, PlanAim::kCost, options);
    ASSERT_LE(cheap.plan.latency_s, options.deadline_s);
    ASSERT_LE(cheap.lower_bound,
              least_of(plans, PlanAim::kCost, options.deadline_s) * (1 + kRounded));
    ++kept;
  }
  EXPECT_GT(kept, 20);
  EXPECT_GT(refused, 5);
}

TEST(Front, HoldsNoPlanThatAnotherBeatsAndTheEndsOfAllAims) {
  Random random(21, "fronts");
  for (int round = 0; round < 60; ++round) {
    const PlanProblem problem = drawn_with_prices(random, round);
    const std::vector<AimedPlan> plans = all_plans(problem);
    const double fastest =
        least_of(plans, PlanAim::kPeriod, std::numeric_limits<double>::infinity());
    if (!std::isfinite(fastest) || fastest == 0) continue;
    const PlanFront front = plan_front(problem, {});
    ASSERT_EQ(front.aims.size(), 5u);
    ASSERT_NEAR(front.plans.front().period_s, fastest, kRounded * fastest);
    for (const AimedPlan& a : front.plans) {
      for (const AimedPlan& b : front.plans) {
        const bool beaten = std::ranges::all_of(
            front.aims, [&](PlanAim aim) { return b.value(aim) < a.value(aim) * (1 - kRounded); });
        ASSERT_FALSE(beaten) << "round " << round;
      }
    }
    for (const PlanAim aim : {PlanAim::kLatency, PlanAim::kHosts}) {
      const double least = least_of(plans, aim, std::numeric_limits<double>::infinity());
      ASSERT_NEAR(least_of(front.plans, aim, std::numeric_limits<double>::infinity()), least,
                  kRounded * least)
          << "round " << round;
    }
    ASSERT_EQ(front_to_json(problem, front).at("front").as_array().size(), front.plans.size());
  }
}

TEST(Front, ThePictureHasRoundTicksALegendAndWords) {
  Random random(4, "picture");
  PlanProblem problem = drawn_with_prices(random, 0);
  problem.model = "a <model>";
  const PlanFront front = plan_front(problem, {});
  const std::string svg = front_to_svg(problem, front);
  for (const char* words : {"a &lt;model&gt;", "the fastest", "the cheapest", "what binds",
                            "cost of 1000 samples", "period in seconds", "1: compute of layers"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
  const std::string text = front_to_text(problem, front);
  EXPECT_NE(text.find("cost/1000"), std::string::npos);
  EXPECT_NE(text.find("joules/sample"), std::string::npos);
}

TEST(Front, AsksForPrices) {
  Random random(4, "no prices");
  PlanProblem problem = drawn_with_prices(random, 0);
  problem.classes.front().price_per_hour = 0;
  EXPECT_THROW((void)plan_for_aim(problem, PlanAim::kCost, {}), Error);
  EXPECT_EQ(plan_front(problem, {}).aims.size(), 4u);
}

}  // namespace
}  // namespace harmonics::inline in_plan
