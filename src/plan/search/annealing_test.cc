// Plans that are changed step by step: valid, never worse, never better than what there is.
#include "annealing.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "plan_builder.h"
#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

struct Extremes {
  Placement worst;
  double worst_s = -1;
  double best_s = std::numeric_limits<double>::infinity();
};

Extremes extremes_of(const NaiveCosts& costs, bool replicate) {
  Extremes result;
  for_each_plan(costs, replicate, [&](const Placement& plan, double period) {
    result.best_s = std::min(result.best_s, period);
    if (!std::isfinite(period) || period <= result.worst_s) return;
    result.worst_s = period;
    result.worst = plan;
  });
  return result;
}

struct AnnealingTally {
  int plans = 0;
  int best = 0;
};

void anneal_worst(const PlanProblem& problem, const PlannerOptions& options,
                  AnnealingTally& tally) {
  const NaiveCosts naive{problem, options.costs};
  const Extremes all = extremes_of(naive, options.replicate);
  if (all.worst.empty()) return;
  const CostModel costs(problem, options.costs);
  const StageGraphBuilder builder = builder_for(problem, costs, options.replicate);
  WorkBudget budget(1'000'000);
  const Placement plan = anneal(
      {.builder = builder, .replicate = options.replicate, .known = all.worst, .work = 400'000},
      budget);
  ++tally.plans;
  ASSERT_TRUE(naive.valid(plan));
  const double period = naive.period_s(plan);
  EXPECT_LE(period, all.worst_s * (1 + 1e-9));
  EXPECT_GE(period, all.best_s * (1 - 1e-9));
  tally.best += period <= all.best_s * (1 + 1e-9) ? 1 : 0;
}

TEST(Annealing, FindsWhatTryingEverythingFinds) {
  AnnealingTally tally;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "annealing");
    const ProblemMix mix{.tight_memory = seed % 2 == 0,
                         .tight_network = seed % 3 == 0,
                         .pins = seed % 4 == 0,
                         .links = seed % 5 == 0};
    PlannerOptions options;
    options.replicate = seed % 7 != 0;
    if (seed % 2 == 1) options.costs.overlap = Overlap::kNone;
    anneal_worst(
        random_problem(random, mix, {.most_layers = 5, .most_classes = 3, .most_hosts = 3}),
        options, tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tally.plans, 60);
  EXPECT_GT(tally.best, tally.plans * 4 / 5) << "of " << tally.plans;
}

TEST(Annealing, GivesTheSamePlanTwice) {
  Random random(7, "annealing twice");
  const PlanProblem problem =
      random_problem(random, {}, {.most_layers = 20, .most_classes = 4, .most_hosts = 9});
  const CostModel costs(problem, {});
  const StageGraphBuilder builder = builder_for(problem, costs, true);
  const Placement known{{0, problem.layers(), 0, 1}};
  std::optional<Placement> first;
  for (int k = 0; k < 2; ++k) {
    WorkBudget budget(1'000'000);
    const Placement plan =
        anneal({.builder = builder, .replicate = true, .known = known, .work = 300'000}, budget);
    EXPECT_GT(budget.spent(), 0u);
    if (first) {
      EXPECT_EQ(plan, *first);
    }
    first = plan;
  }
}

}  // namespace
}  // namespace harmonics::inline in_plan
