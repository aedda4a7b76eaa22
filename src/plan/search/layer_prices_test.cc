// Prices on layers against trying everything: what they refute has no plan, the proof holds for a
// checker of its own, and a search that goes by what hosts can earn loses no plan.
#include "layer_prices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "host_prices.h"
#include "node_search.h"
#include "period_search.h"
#include "plan_builder.h"
#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::size_t kAllLabels = 100'000;

PlanProblem drawn(std::uint64_t seed) {
  Random random(seed, "layer prices");
  const ProblemMix mix{.tight_memory = seed % 3 == 0, .tight_network = seed % 2 == 0};
  return random_problem(random, mix, {.most_layers = 5, .most_classes = 2, .most_hosts = 6});
}

double least_period(const NaiveCosts& costs) {
  double least = std::numeric_limits<double>::infinity();
  for (const PlanFigures& plan : all_plans(costs, true)) least = std::min(least, plan.period_s);
  return least;
}

struct Tally {
  int refuted = 0;
  int beyond_hosts = 0;  // where prices per host alone refute nothing
  int found = 0;
};

class Question {
 public:
  explicit Question(const PlanProblem& problem)
      : naive_{problem, {}},
        costs_(problem, {}),
        builder_(builder_for(problem, costs_, true)),
        layers_(builder_.capacity(), budget_),
        hosts_(builder_.capacity(), budget_) {}

  void look_at(double period_s, bool has_plan, Tally& tally) {
    const StageGraph graph = builder_.build({.period_s = period_s, .replicate = true});
    const StageGraph all =
        builder_.build({.period_s = period_s, .replicate = true, .only_best = false});
    const Relaxation relaxation = hosts_.solve(graph, RelaxationDepth::kBestPrices);
    const auto price =
        relaxation.feasible ? relaxation.prices.back().price : relaxation.proof.price;
    ASSERT_TRUE(layers_.affords(graph));
    const std::optional<LayerProof> proof = layers_.refute(all, period_s, price);
    if (proof) {
      EXPECT_FALSE(has_plan);
      EXPECT_TRUE(proof_holds(naive_, *proof));
      ++tally.refuted;
      tally.beyond_hosts += relaxation.feasible ? 1 : 0;
    } else if (relaxation.feasible) {
      search(graph, relaxation, has_plan, tally);
    }
  }

 private:
  void search(const StageGraph& graph, const Relaxation& relaxation, bool has_plan, Tally& tally) {
    PathQuestion question{graph, builder_.capacity(), relaxation.prices, kAllLabels};
    question.earnings = &layers_.earnings_for(graph);
    const SearchResult found = search_by_node(question, budget_);
    EXPECT_EQ(found.verdict, has_plan ? SearchVerdict::kFound : SearchVerdict::kNone);
    if (found.verdict != SearchVerdict::kFound) return;
    EXPECT_TRUE(naive_.valid(placement_of(graph, found.path)));
    ++tally.found;
  }

  const NaiveCosts naive_;
  const CostModel costs_;
  const StageGraphBuilder builder_;
  WorkBudget budget_{1'000'000'000};
  LayerPricing layers_;
  HostPricing hosts_;
};

TEST(LayerPrices, RefuteOnlyWhatHasNoPlanAndLoseNone) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(format("seed {}", seed));
    const PlanProblem problem = drawn(seed);
    const double least = least_period({problem, {}});
    if (!std::isfinite(least) || least == 0) continue;
    Question question(problem);
    for (const double factor : {1.001, 0.999, 0.97, 0.93, 0.87, 0.8, 0.7}) {
      question.look_at(least * factor, factor > 1, tally);
    }
  }
  EXPECT_GT(tally.refuted, 400);
  EXPECT_GT(tally.found, 200);
  EXPECT_GT(tally.beyond_hosts, 15) << "layers add nothing to prices per host";
}

TEST(LayerPrices, AProofWithAWrongPriceDoesNotHold) {
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
  // Two hosts for either layer, and four for both: with three, half of it can be earned.
  EXPECT_TRUE(proof_holds(costs, LayerProof{1.3, {0.5, 0.5}}));
  EXPECT_FALSE(proof_holds(costs, LayerProof{1.3, {0, 1}}));
  EXPECT_FALSE(proof_holds(costs, LayerProof{1.3, {0.4, 0.4}}));
  EXPECT_FALSE(proof_holds(costs, LayerProof{1.4, {0.5, 0.5}}));
}

TEST(EarningTable, ItsCeilingIsHeld) {
  StageGraph graph;
  graph.cut.resize(401);
  const auto suits = [&](std::uint16_t hosts) {
    return EarningTable::suits(graph, std::vector<std::uint16_t>{hosts});
  };
  EXPECT_TRUE(suits(19'900));
  EXPECT_FALSE(suits(20'000));
  graph.shape = StageGraphShape::kLevels;
  EXPECT_FALSE(suits(1)) << "not a graph of cuts";
}

}  // namespace
}  // namespace harmonics::inline in_plan
