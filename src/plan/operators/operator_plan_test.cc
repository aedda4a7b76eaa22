#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <harmonics/plan/planner.h>

#include "operator_testing.h"

namespace harmonics::inline in_plan {
namespace {

constexpr int kDrawn = 2'000;

OperatorMix mix_of(int round) {
  return {.classes = round % 2 == 1,
          .backward = round % 3 == 2,
          .tight_memory = round % 4 == 3,
          .cannot_run = round % 5 == 1,
          .free_device = round % 5 < 2,
          .idle = round % 7 < 3};
}

// What holds for every plan: each operator once, on hosts that are there once, within memory.
void expect_in_order(const OperatorGraph& graph, const OperatorPlanOptions& options,
                     const OperatorOutcome& outcome) {
  std::vector<int> placed(graph.nodes.size(), 0);
  std::vector<std::vector<bool>> taken;
  for (const OperatorDevice& device : graph.devices) taken.emplace_back(device.hosts.size(), false);
  double period = 0;
  std::uint32_t done = 0;
  for (const OperatorStage& stage : outcome.stages) {
    ASSERT_LT(stage.host, taken[stage.device].size());
    ASSERT_FALSE(taken[stage.device][stage.host]);
    taken[stage.device][stage.host] = true;
    std::uint32_t set = 0;
    for (const std::size_t node : stage.nodes) {
      ++placed[node];
      set |= 1u << node;
    }
    done |= set;
    period = std::max(period, set_seconds(graph, options.overlap, set, stage.device));
    EXPECT_TRUE(options.split == OperatorSplit::kFree || may_be_done(graph, done));
  }
  EXPECT_TRUE(std::ranges::all_of(placed, [](int times) { return times == 1; }));
  EXPECT_NEAR(period, outcome.period_s, 1e-12 * period);
  EXPECT_NEAR(recomputed_bound(graph, outcome.proof), outcome.proof.bound_s,
              1e-9 * outcome.proof.bound_s);
  EXPECT_LE(outcome.proof.bound_s, period * (1 + 1e-9));
  EXPECT_LE(outcome.lower_bound_s, period * (1 + 1e-9));
}

double planned(const OperatorGraph& graph, const OperatorPlanOptions& options) {
  try {
    const OperatorOutcome outcome = plan_operators(graph, options);
    EXPECT_TRUE(outcome.proven);
    expect_in_order(graph, options, outcome);
    return outcome.period_s;
  } catch (const NoFeasiblePlan&) {
    return kCannotRun;
  }
}

TEST(OperatorPlan, EqualsBruteForceOnDrawnGraphs) {
  int without = 0;
  for (int round = 0; round < kDrawn; ++round) {
    Random random(static_cast<std::uint64_t>(round), "operator plan");
    const OperatorGraph graph = random_operators(random, mix_of(round), 10);
    const OperatorPlanOptions options{.overlap = round % 2 == 0 ? Overlap::kNone : Overlap::kFull};
    const double expected = BruteContiguous(graph, options.overlap).best();
    const double found = planned(graph, options);
    if (std::isinf(expected)) ++without;
    ASSERT_TRUE(found == expected || std::abs(found - expected) <= 1e-9 * expected)
        << "round " << round << ": " << found << ", brute force " << expected << "\n"
        << operator_graph_to_json(graph);
  }
  EXPECT_GT(without, 0);
  EXPECT_LT(without, kDrawn / 4);
}

TEST(OperatorPlan, FreeSplitsEqualBruteForceOnDrawnGraphs) {
  int better = 0;
  for (int round = 0; round < kDrawn / 4; ++round) {
    Random random(static_cast<std::uint64_t>(round), "free operator plan");
    const OperatorGraph graph = random_operators(random, mix_of(round), 7);
    OperatorPlanOptions options{.overlap = round % 2 == 0 ? Overlap::kNone : Overlap::kFull,
                                .split = OperatorSplit::kFree};
    const double expected = brute_free(graph, options.overlap);
    const double found = planned(graph, options);
    ASSERT_TRUE(found == expected || std::abs(found - expected) <= 1e-9 * expected)
        << "round " << round << ": " << found << ", brute force " << expected << "\n"
        << operator_graph_to_json(graph);
    options.split = OperatorSplit::kContiguous;
    const double contiguous = planned(graph, options);
    EXPECT_LE(found, contiguous);
    if (found < contiguous) ++better;
  }
  EXPECT_GT(better, 0);
}

// Branches side by side: the ideals are too many to look at.
OperatorGraph wide_graph(std::size_t branches, std::size_t length) {
  OperatorGraph graph;
  graph.devices = {{"a", {"a1", "a2", "a3"}, 1e9, 1000}, {"b", {"b1", "b2"}, 1e9, 500}};
  Random random(7, "wide graph");
  graph.nodes.push_back({"in", {0.001, 0.002}});
  for (std::size_t b = 0; b < branches; ++b) {
    for (std::size_t k = 0; k < length; ++k) {
      const double time = 0.001 * static_cast<double>(1 + random.below(9));
      graph.nodes.push_back({format("b{}.{}", b, k), {time, 2 * time}});
      const std::size_t own = graph.nodes.size() - 1;
      graph.tensors.push_back({k == 0 ? 0 : own - 1, {own}, 1000});
    }
  }
  graph.nodes.push_back({"out", {0.001, 0.002}});
  for (std::size_t b = 0; b < branches; ++b) {
    graph.tensors.push_back({(b + 1) * length, {graph.nodes.size() - 1}, 1000});
  }
  return graph;
}

TEST(OperatorPlan, CutsOrdersWhereTheLatticeIsTooLarge) {
  const OperatorGraph graph = wide_graph(12, 6);
  const OperatorOutcome outcome = plan_operators(graph, {.work = 100'000'000});
  EXPECT_EQ(outcome.ideals, 0u);
  EXPECT_EQ(outcome.method, OperatorMethod::kOrders);
  EXPECT_NEAR(recomputed_bound(graph, outcome.proof), outcome.proof.bound_s, 1e-12);
  EXPECT_GT(outcome.lower_bound_s, 0);
  EXPECT_LT(outcome.gap(), 0.02);
  const std::string text = operator_report_to_text(graph, {}, outcome);
  EXPECT_NE(text.find("more than 100000 ideals"), std::string::npos) << text;
}

TEST(OperatorPlan, TheSameEveryTimeAndSaysWhenWorkRanOut) {
  const OperatorGraph graph = wide_graph(4, 5);
  const OperatorOutcome once = plan_operators(graph, {});
  EXPECT_EQ(once.method, OperatorMethod::kWholeLattice);
  EXPECT_TRUE(once.proven);
  EXPECT_EQ(plan_operators(graph, {}).stages, once.stages);
  const OperatorOutcome hasty = plan_operators(graph, {.work = 20'000});
  EXPECT_FALSE(hasty.proven);
  EXPECT_GE(hasty.period_s, once.period_s);
  EXPECT_LE(hasty.lower_bound_s, once.period_s);
  EXPECT_NE(operator_report_to_text(graph, {}, hasty).find("the work did not do"),
            std::string::npos);
}

TEST(OperatorPlan, SaysWhyThereIsNone) {
  OperatorGraph graph = wide_graph(2, 2);
  const auto reason = [&] {
    try {
      (void)plan_operators(graph, {});
    } catch (const NoFeasiblePlan& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  graph.nodes[1].time_s = {kCannotRun, kCannotRun};
  EXPECT_NE(reason().find("no host can run operator 'b0.0'"), std::string::npos) << reason();
  graph = wide_graph(2, 2);
  graph.nodes[2].memory_mb = 2e9;
  EXPECT_NE(reason().find("operator 'b0.1' needs 2000000000.0 MB"), std::string::npos) << reason();
  graph = wide_graph(2, 2);
  for (OperatorNode& node : graph.nodes) node.memory_mb = 9e8;
  EXPECT_NE(reason().find("no split of 6 groups of operators fits"), std::string::npos) << reason();
}

TEST(OperatorPlan, NothingToPlan) {
  const OperatorOutcome outcome = plan_operators({}, {});
  EXPECT_TRUE(outcome.proven);
  EXPECT_EQ(operator_plan_to_yaml({}, outcome), "[]\n");
}

}  // namespace
}  // namespace harmonics::inline in_plan
