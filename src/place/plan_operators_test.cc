#include <harmonics/place/plan_operators.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/graph/units.h>
#include <harmonics/plan/operator_plan.h>

namespace harmonics::inline in_place {
namespace {

using ::testing::ElementsAre;

// Two branches from one input, which meet again: x feeds both, and is passed on by the first.
HarmonicGraph branches() {
  return GraphBuilder("forked")
      .producer("x", Shape{4})
      .layer("left", "linear", {{"out", std::int64_t{3}}}, {"x"})
      .layer("right", "linear", {{"out", std::int64_t{5}}}, {"x"})
      .layer("both", "concat", {}, {"left", "right"})
      .consumer("y", "both")
      .build();
}

PlanProblem problem_of(std::size_t layers) {
  PlanProblem problem;
  problem.model = "forked";
  problem.dtype = "torch.float32";
  problem.batch_size = 2;
  problem.layer_memory_mb.assign(layers, 1);
  problem.cut_bytes.assign(layers + 1, 0);
  problem.classes.push_back({.type = "t",
                             .hosts = {"a", "b"},
                             .bandwidth_mbps = 100,
                             .memory_mb = 50,
                             .layer_time_s = std::vector<double>(layers, 0.5),
                             .barred = {}});
  return problem;
}

TEST(PlanOperators, BranchesBecomeTensors) {
  const HarmonicGraph graph = branches();
  const OperatorGraph operators = operator_graph_of(graph, problem_of(3));
  ASSERT_EQ(operators.nodes.size(), 3u);
  EXPECT_EQ(operators.nodes[1].name, "right");
  EXPECT_EQ(operators.nodes[1].time_s, std::vector<double>{0.5});
  EXPECT_EQ(operators.devices[0].hosts.size(), 2u);
  // x to the right branch, and each branch to where they meet; four bytes, batches of two.
  EXPECT_THAT(operators.tensors,
              ElementsAre(OperatorTensor{0, {1}, 4 * 8.0}, OperatorTensor{0, {2}, 3 * 8.0},
                          OperatorTensor{1, {2}, 5 * 8.0}));
  const OperatorOutcome outcome = plan_operators(operators, {});
  EXPECT_TRUE(outcome.proven);
  EXPECT_DOUBLE_EQ(outcome.period_s, 1.0);
}

TEST(PlanOperators, SaysWhatItCannot) {
  const HarmonicGraph graph = branches();
  EXPECT_THROW((void)operator_graph_of(graph, problem_of(4)), Error);
  PlanProblem tied = problem_of(3);
  tied.tied_bytes = {0, 8, 0, 0};
  EXPECT_THROW((void)operator_graph_of(graph, tied), Error);
}

}  // namespace
}  // namespace harmonics::inline in_place
