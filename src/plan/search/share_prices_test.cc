// Prices on shares against trying everything: what they refute has no plan, and the proof holds for
// a checker that knows nothing of them but their definition.
#include "share_prices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "host_prices.h"
#include "plan_builder.h"
#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

double least_period(const NaiveCosts& costs) {
  double least = std::numeric_limits<double>::infinity();
  for (const PlanFigures& plan : all_plans(costs, true)) least = std::min(least, plan.period_s);
  return least;
}

// Whether any choice of stages on the hosts of a class counts more than its parts.
std::size_t most_counted(std::size_t left, std::size_t parts, std::size_t capacity) {
  std::size_t most = 0;
  for (std::size_t hosts = 1; hosts <= left; ++hosts) {
    most = std::max(
        most, shares_counted(hosts, parts, capacity) + most_counted(left - hosts, parts, capacity));
  }
  return most;
}

TEST(SharePrices, NoPlanCountsMoreThanTheParts) {
  for (std::size_t capacity = 1; capacity <= 9; ++capacity) {
    for (std::size_t parts = 1; parts <= 12; ++parts) {
      EXPECT_LE(most_counted(capacity, parts, capacity), parts)
          << capacity << " hosts, " << parts << " parts";
    }
  }
}

struct Tally {
  int refuted = 0;
  int with_shares = 0;
  int beyond_hosts = 0;  // where prices per host alone refute nothing
};

void look_at(const PlanProblem& problem, const CostOptions& options, Tally& tally) {
  const NaiveCosts naive{problem, options};
  const double least = least_period(naive);
  if (!std::isfinite(least) || least == 0) return;
  const CostModel costs(problem, options);
  const StageGraphBuilder builder = builder_for(problem, costs, true);
  WorkBudget budget(50'000'000);
  SharePricing shares(builder.capacity(), budget);
  HostPricing hosts(builder.capacity(), budget);
  for (const double factor : {1.001, 0.999, 0.97, 0.93, 0.87, 0.8, 0.7}) {
    const double period = least * factor;
    const StageGraph graph = builder.build({.period_s = period, .replicate = true});
    const std::optional<PeriodProof> proof = shares.refute(graph, period);
    if (factor > 1) {
      EXPECT_FALSE(proof.has_value()) << "there is a plan";
      continue;
    }
    if (!proof) continue;
    ++tally.refuted;
    tally.with_shares += proof->shares.empty() ? 0 : 1;
    EXPECT_TRUE(proof_holds(naive, true, *proof));
    tally.beyond_hosts += hosts.solve(graph, RelaxationDepth::kBestPrices).feasible ? 1 : 0;
  }
}

TEST(SharePrices, RefuteOnlyWhatHasNoPlan) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "shares");
    const ProblemMix mix{.tight_memory = seed % 3 == 0, .tight_network = seed % 2 == 0};
    CostOptions options;
    if (seed % 5 == 0) options.overlap = Overlap::kNone;
    look_at(random_problem(random, mix, {.most_layers = 5, .most_classes = 2, .most_hosts = 6}),
            options, tally);
  }
  EXPECT_GT(tally.refuted, 200);
  EXPECT_GT(tally.with_shares, 20);
  EXPECT_GT(tally.beyond_hosts, 20) << "shares add nothing to prices per host";
}

TEST(SharePrices, AProofWithAWrongPriceDoesNotHold) {
  PlanProblem problem;
  problem.layer_memory_mb = {1, 1};
  problem.cut_bytes = {0, 0, 0};
  HostClass one;
  one.type = "t";
  one.hosts = {"a", "b", "c"};
  one.bandwidth_mbps = 100;
  one.memory_mb = 100;
  one.layer_time_s = {2, 2};
  problem.classes.push_back(one);
  const NaiveCosts costs{problem, {}};
  // Two stages of two hosts each take more than half of three; together no plan has them.
  EXPECT_FALSE(proof_holds(costs, true, {1.9, {0}, {{0, 1, 0.4}}}));
  EXPECT_FALSE(proof_holds(costs, true, {1.9, {0}, {{0, 1, 2}}}));
}

}  // namespace
}  // namespace harmonics::inline in_plan
