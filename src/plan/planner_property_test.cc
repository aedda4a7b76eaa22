// The planner against solvers that try everything: thousands of small random problems of every
// kind.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include <harmonics/plan/planner.h>

#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

constexpr double kClose = 1e-9;

struct Best {
  double period_s = std::numeric_limits<double>::infinity();
  double latency_s = std::numeric_limits<double>::infinity();
};

// The least period of all plans, and the least latency.
Best best_of(const std::vector<PlanFigures>& plans) {
  Best best;
  for (const PlanFigures& plan : plans) {
    best.period_s = std::min(best.period_s, plan.period_s);
    best.latency_s = std::min(best.latency_s, plan.latency_s);
  }
  return best;
}

std::optional<PlanOutcome> try_plan(const PlanProblem& problem, const PlannerOptions& options) {
  try {
    return make_plan(problem, options);
  } catch (const NoFeasiblePlan&) {
    return std::nullopt;
  }
}

void expect_sound(const NaiveCosts& costs, const PlanOutcome& outcome) {
  ASSERT_TRUE(costs.valid(outcome.placement));
  EXPECT_NEAR(costs.period_s(outcome.placement), outcome.period_s, kClose);
  EXPECT_NEAR(costs.latency_s(outcome.placement), outcome.latency_s, kClose);
}

class PlannerProperty : public testing::TestWithParam<std::tuple<std::string, ProblemMix>> {
 protected:
  void check(const PlanProblem& problem, PlannerOptions options) {
    const NaiveCosts costs{problem, options.costs};
    const std::vector<PlanFigures> plans = all_plans(costs, options.replicate);
    const Best best = best_of(plans);
    const std::optional<PlanOutcome> outcome = try_plan(problem, options);
    ASSERT_EQ(outcome.has_value(), !plans.empty());
    if (!outcome) return;
    ++feasible_;
    expect_sound(costs, *outcome);
    EXPECT_TRUE(outcome->proven);
    EXPECT_NEAR(outcome->period_s, best.period_s, kClose);
    EXPECT_LE(outcome->lower_bound_s, best.period_s + kClose);
    if (outcome->proof) {
      EXPECT_LT(outcome->proof->period_s, best.period_s);
      EXPECT_TRUE(proof_holds(costs, options.replicate, *outcome->proof));
    }
    if (outcome->layer_proof) {
      EXPECT_LT(outcome->layer_proof->period_s, best.period_s);
      EXPECT_TRUE(proof_holds(costs, *outcome->layer_proof));
    }
    check_preferences(problem, options, plans);
    if (!options.replicate) check_latency(problem, options, best);
  }

  // The least latency and the fewest hosts among plans whose period is within the tolerance.
  void check_preferences(const PlanProblem& problem, PlannerOptions options,
                         const std::vector<PlanFigures>& plans) {
    options.tolerance = 0.25;
    const double most = best_of(plans).period_s * (1 + options.tolerance) + kClose;
    double latency_s = std::numeric_limits<double>::infinity();
    std::size_t hosts = std::numeric_limits<std::size_t>::max();
    for (const PlanFigures& plan : plans) {
      if (plan.period_s > most) continue;
      latency_s = std::min(latency_s, plan.latency_s);
      hosts = std::min(hosts, plan.hosts);
    }
    options.preference = PlanPreference::kLatency;
    const PlanOutcome quick = make_plan(problem, options);
    EXPECT_LE(quick.period_s, most);
    EXPECT_NEAR(quick.latency_s, latency_s, kClose);
    EXPECT_TRUE(quick.preference_proven);
    options.preference = PlanPreference::kFewestHosts;
    const PlanOutcome small = make_plan(problem, options);
    EXPECT_LE(small.period_s, most);
    EXPECT_EQ(small.hosts, hosts);
    EXPECT_TRUE(small.preference_proven);
  }

  void check_latency(const PlanProblem& problem, PlannerOptions options, const Best& best) {
    options.goal = PlanGoal::kLatency;
    const PlanOutcome outcome = make_plan(problem, options);
    expect_sound({problem, options.costs}, outcome);
    EXPECT_TRUE(outcome.proven);
    EXPECT_NEAR(outcome.latency_s, best.latency_s, kClose);
    EXPECT_LE(outcome.lower_bound_s, best.latency_s + kClose);
  }

  int feasible_ = 0;
};

TEST_P(PlannerProperty, AgreesWithTryingEverything) {
  const auto& [name, mix] = GetParam();
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "planner " + name);
    PlannerOptions options;
    options.costs.buffers_in = static_cast<int>(random.below(3));
    options.costs.buffers_out = static_cast<int>(random.below(3));
    check(random_problem(random, mix, {}), options);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(feasible_, 20) << "the generator makes too few problems that have a plan";
}

TEST_P(PlannerProperty, AgreesWhenNothingOverlaps) {
  const auto& [name, mix] = GetParam();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "sum " + name);
    PlannerOptions options;
    options.costs.overlap = Overlap::kNone;
    check(random_problem(random, mix, {.most_layers = 6, .most_classes = 3, .most_hosts = 2}),
          options);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(feasible_, 8);
}

TEST_P(PlannerProperty, AgreesWithReplicatedStages) {
  const auto& [name, mix] = GetParam();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "replicated " + name);
    PlannerOptions options;
    options.replicate = true;
    check(random_problem(random, mix, {.most_layers = 5, .most_classes = 2, .most_hosts = 4}),
          options);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(feasible_, 8);
}

TEST_P(PlannerProperty, AgreesWithReplicatedStagesThatDoNotOverlap) {
  const auto& [name, mix] = GetParam();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "replicated sum " + name);
    PlannerOptions options;
    options.replicate = true;
    options.costs.overlap = Overlap::kNone;
    check(random_problem(random, mix, {.most_layers = 5, .most_classes = 3, .most_hosts = 3}),
          options);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(feasible_, 8);
}

// However little work is allowed: a plan without replication is one with it.
TEST_P(PlannerProperty, ReplicationIsNeverWorse) {
  const auto& [name, mix] = GetParam();
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "never worse " + name);
    const PlanProblem problem =
        random_problem(random, mix, {.most_layers = 24, .most_classes = 4, .most_hosts = 4});
    PlannerOptions options;
    options.costs.overlap = seed % 2 == 0 ? Overlap::kNone : Overlap::kFull;
    options.work = std::uint64_t{1} << random.below(18);
    const std::optional<PlanOutcome> single = try_plan(problem, options);
    options.replicate = true;
    const std::optional<PlanOutcome> replicated = try_plan(problem, options);
    if (!single) continue;
    ++feasible_;
    ASSERT_TRUE(replicated.has_value());
    EXPECT_LE(replicated->period_s, single->period_s * (1 + kClose));
    EXPECT_LE(replicated->lower_bound_s, replicated->period_s * (1 + kClose));
  }
  EXPECT_GT(feasible_, 2);
}

// However little work is allowed: what a simpler goal's plan reaches, a plan for the goal reaches
// too.
TEST_P(PlannerProperty, NeverWorseThanTheSimplerGoalsPlan) {
  const auto& [name, mix] = GetParam();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "simpler " + name);
    const PlanProblem problem =
        random_problem(random, mix, {.most_layers = 24, .most_classes = 4, .most_hosts = 4});
    PlannerOptions options;
    options.replicate = seed % 3 == 0;
    options.work = std::uint64_t{1} << random.below(18);
    const std::optional<PlanOutcome> overlapped = try_plan(problem, options);
    if (!overlapped) continue;
    ++feasible_;
    PlannerOptions latency = options;
    latency.goal = PlanGoal::kLatency;
    const std::optional<PlanOutcome> quick = try_plan(problem, latency);
    ASSERT_TRUE(quick.has_value());
    EXPECT_LE(quick->latency_s, overlapped->latency_s * 1.0101);
    EXPECT_LE(quick->lower_bound_s, quick->latency_s * (1 + kClose));
    options.costs.overlap = Overlap::kNone;
    const NaiveCosts sum{problem, options.costs};
    const double limit = sum.period_s(overlapped->placement);
    const std::optional<PlanOutcome> one_by_one = try_plan(problem, options);
    if (!std::isfinite(limit)) continue;
    ASSERT_TRUE(one_by_one.has_value());
    EXPECT_TRUE(sum.valid(one_by_one->placement));
    EXPECT_LE(one_by_one->period_s, limit * 1.0101);
    EXPECT_LE(one_by_one->lower_bound_s, one_by_one->period_s * (1 + kClose));
  }
  EXPECT_GT(feasible_, 2);
}

// So many kinds that the planner looks for a first plan before it bounds anything.
TEST_P(PlannerProperty, AgreesWithManyKindsOfHosts) {
  const auto& [name, mix] = GetParam();
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "many " + name);
    check(random_problem(random, mix, {.most_layers = 3, .most_classes = 40, .most_hosts = 1}), {});
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(feasible_, 2);
}

// The same at three sites, whose links tell hosts apart no further.
TEST_P(PlannerProperty, AgreesWithManyKindsOfHostsAtSites) {
  const auto& [name, mix] = GetParam();
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    Random random(seed, "sites " + name);
    PlanProblem problem =
        random_problem(random, mix, {.most_layers = 3, .most_classes = 40, .most_hosts = 1});
    const std::size_t classes = problem.classes.size();
    problem.link_mbps.clear();
    for (std::size_t u = 0; u < classes; ++u) {
      for (std::size_t v = 0; v < classes; ++v) {
        problem.link_mbps.push_back(u % 3 == v % 3 ? 32 : static_cast<double>(u % 3 + v % 3));
      }
    }
    check(problem, {});
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(feasible_, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Mixes, PlannerProperty,
    testing::Values(
        std::tuple("plain", ProblemMix{}), std::tuple("memory", ProblemMix{.tight_memory = true}),
        std::tuple("network", ProblemMix{.tight_network = true}),
        std::tuple("memory_network", ProblemMix{.tight_memory = true, .tight_network = true}),
        std::tuple("zero", ProblemMix{.tight_network = true, .zero_costs = true}),
        std::tuple("equal", ProblemMix{.tight_memory = true, .equal_types = true}),
        std::tuple("pins", ProblemMix{.tight_memory = true, .pins = true}),
        std::tuple("links", ProblemMix{.tight_memory = true, .tight_network = true, .links = true}),
        std::tuple("latencies",
                   ProblemMix{.tight_network = true, .links = true, .latencies = true}),
        std::tuple("far_order", ProblemMix{.zero_costs = true, .ordered = true, .latencies = true}),
        std::tuple("order", ProblemMix{.tight_network = true, .ordered = true}),
        std::tuple("everything", ProblemMix{.tight_memory = true,
                                            .tight_network = true,
                                            .zero_costs = true,
                                            .pins = true,
                                            .links = true,
                                            .ordered = true})),
    [](const auto& info) { return std::get<0>(info.param); });

}  // namespace
}  // namespace harmonics::inline in_plan
