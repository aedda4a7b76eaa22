#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <harmonics/plan/pipelines.h>
#include <harmonics/plan/plan_file.h>

#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

constexpr double kClose = 1e-6;
constexpr std::uint64_t kShortWork = 400'000;

PlanProblem even_layers(std::size_t layers, double bytes) {
  PlanProblem problem;
  problem.model = "even";
  problem.dtype = "torch.float32";
  problem.layer_memory_mb.assign(layers, 1);
  problem.cut_bytes.assign(layers + 1, bytes);
  return problem;
}

void add_class(PlanProblem& problem, const std::string& type, std::size_t hosts, double time_s) {
  HostClass one;
  one.type = type;
  for (std::size_t k = 0; k < hosts; ++k) one.hosts.push_back(format("{}-{}", type, k));
  one.bandwidth_mbps = 1000;
  one.memory_mb = 1000;
  one.layer_time_s.assign(problem.layers(), time_s);
  problem.classes.push_back(std::move(one));
}

// Every host once, within its memory, and the rates as the rows say.
void expect_in_order(const PlanProblem& problem, const PipelinesOutcome& outcome) {
  const CostModel costs(problem, {});
  std::set<std::string> seen;
  double sum = 0;
  for (const PlannedPipeline& pipeline : outcome.pipelines) {
    std::size_t next = 1;
    double slowest = 0;
    for (const PlanStage& stage : pipeline.plan.stages) {
      ASSERT_EQ(stage.first_layer, next);
      next = stage.last_layer + 1;
      double round = 0;
      double longest = 0;
      for (std::size_t k = 0; k < stage.hosts.size(); ++k) {
        ASSERT_TRUE(seen.insert(stage.hosts[k]).second) << stage.hosts[k] << " is there twice";
        const auto u = static_cast<std::size_t>(
            std::ranges::find_if(problem.classes,
                                 [&](const HostClass& one) {
                                   return std::ranges::find(one.hosts, stage.hosts[k]) !=
                                          one.hosts.end();
                                 }) -
            problem.classes.begin());
        ASSERT_LT(u, problem.classes.size());
        ASSERT_TRUE(costs.allowed(u, stage.first_layer - 1, stage.last_layer));
        const double turns = stage.turns.empty() ? 1 : stage.turns[k];
        round += turns;
        longest =
            std::max(longest, turns * costs.stage_s(u, stage.first_layer - 1, stage.last_layer));
      }
      slowest = std::max(slowest, longest / round);
    }
    ASSERT_EQ(next, problem.layers() + 1);
    ASSERT_LE(pipeline.rate, 1 / slowest * (1 + kClose));
    if (problem.link_mbps.empty()) {
      ASSERT_NEAR(pipeline.rate * slowest, 1, kClose);
    }
    sum += pipeline.rate;
  }
  ASSERT_NEAR(sum, outcome.rate, kClose * outcome.rate);
}

TEST(Pipelines, HostsOfUnlikeTypesTakeTurnsAtAStage) {
  // One layer cannot be cut: only turns use both hosts, two of three for the faster one.
  PlanProblem problem = even_layers(1, 0);
  add_class(problem, "fast", 1, 1);
  add_class(problem, "slow", 1, 2);
  const PipelinesOutcome outcome = plan_pipelines(problem, {.work = kShortWork});
  EXPECT_EQ(outcome.shape, PipelineShape::kRow);
  EXPECT_NEAR(outcome.rate, 1.5, kClose);
  EXPECT_TRUE(outcome.proven);
  EXPECT_EQ(pipelines_to_yaml(outcome), "- fast-0: [1, 1, 2]\n- slow-0: [1, 1, 1]\n");
  // It can be run: the report reads back as a plan.
  const PlanFile file = parse_plan_file(pipelines_to_json(problem, outcome).dump(2), "plan.json");
  EXPECT_EQ(file.plan, outcome.pipelines.front().plan);
  EXPECT_EQ(file.plan.stages[0].turns, (std::vector<std::uint32_t>{2, 1}));
}

TEST(Pipelines, SitesWithASlowLinkAreSeparatePipelines) {
  // Two sites of two hosts each; what crosses between them takes a hundred times longer.
  PlanProblem problem = even_layers(8, 1048576);
  problem.classes.clear();
  add_class(problem, "here", 2, 1);
  add_class(problem, "there", 2, 1.2);
  for (HostClass& one : problem.classes) one.memory_mb = 16;  // nobody holds all layers
  problem.layer_memory_mb.assign(8, 1.5);
  problem.link_mbps = {1000, 0.08, 0.08, 1000};
  const PipelinesOutcome outcome =
      plan_pipelines(problem, {.wish = PipelineWish::kRunnable, .work = 2'000'000});
  expect_in_order(problem, outcome);
  EXPECT_EQ(outcome.shape, PipelineShape::kPipelines);
  EXPECT_NEAR(outcome.rate, 1 / 4.0 + 1 / 4.8, kClose);
  EXPECT_GT(outcome.rate, outcome.chain_rate * 1.5);
  const auto refused = [&](const std::string& text) {
    try {
      (void)parse_plan_file(text, "plan");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_NE(refused(pipelines_to_yaml(outcome)).find("begins at layer 1 again"), std::string::npos);
  EXPECT_NE(refused(pipelines_to_json(problem, outcome).dump()).find("several pipelines"),
            std::string::npos);
}

TEST(Pipelines, DrawnProblemsAreNeverWorseThanOnePipelineNorAboveTheBound) {
  Random random(5, "pipelines");
  int planned = 0;
  int better = 0;
  for (int round = 0; round < 60; ++round) {
    const ProblemMix mix{.tight_memory = round % 3 == 1,
                         .tight_network = round % 4 == 2,
                         .pins = round % 5 == 3,
                         .links = round % 6 == 5};
    PlanProblem problem =
        random_problem(random, mix, {.most_layers = 5, .most_classes = 3, .most_hosts = 2});
    PipelinesOutcome outcome;
    try {
      outcome = plan_pipelines(problem, {.wish = PipelineWish::kRunnable, .work = kShortWork});
    } catch (const NoFeasiblePlan&) {
      continue;
    }
    ++planned;
    ASSERT_GE(outcome.rate, outcome.chain_rate * (1 - kClose)) << "round " << round;
    ASSERT_LE(outcome.rate, outcome.flow.proof.rate * (1 + kClose)) << "round " << round;
    if (outcome.rate > outcome.chain_rate * 1.01) ++better;
    expect_in_order(problem, outcome);
    const PipelinesOutcome any = plan_pipelines(problem, {.work = kShortWork});
    ASSERT_GE(any.rate, outcome.rate * (1 - kClose)) << "round " << round;
    ASSERT_GE(any.rate * 1.0101, any.flow.rate()) << "round " << round;
    ASSERT_LE(any.rate, any.flow.proof.rate * (1 + kClose)) << "round " << round;
  }
  EXPECT_GT(planned, 30);
  EXPECT_GT(better, 5);
}

TEST(Pipelines, SayWhatTheyCannotPlan) {
  PlanProblem problem = even_layers(2, 0);
  add_class(problem, "one", 2, 1);
  CostOptions apart;
  apart.overlap = Overlap::kNone;
  EXPECT_THROW((void)plan_pipelines(problem, {.costs = apart}), Error);
  problem.order = {0};
  EXPECT_THROW((void)plan_pipelines(problem, {}), Error);
  EXPECT_THROW((void)row_rate(flow_of(even_layers(2, 0), {}), {{{{"nobody"}, 1, 2}}}), Error);
}

}  // namespace
}  // namespace harmonics::inline in_plan
