// The planner on the example files, on larger problems, and where it must refuse.
#include <gtest/gtest.h>

#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>
#include <harmonics/plan/request.h>

#include <error_testing.h>

#include "plan_testing.h"
#include "problem_testing.h"
#include "search/candidate_periods.h"
#include "search/host_prices.h"
#include "search/node_search.h"
#include "search/path_search.h"
#include "stage_graph.h"

namespace harmonics::inline in_plan {
namespace {

constexpr const char* kBase = "google/vit-base-patch16-224";
constexpr const char* kLarge = "google/vit-large-patch16-224";

PlanProblem example(const std::string& model) {
  PlanRequest request;
  request.model = model;
  return make_problem(example_inputs(), request);
}

std::string refusal(const PlanProblem& problem, const PlannerOptions& options) {
  try {
    static_cast<void>(make_plan(problem, options));
  } catch (const NoFeasiblePlan& error) {
    return error.what();
  }
  return "a plan was found";
}

TEST(Planner, SolvesTheExamplesToProvenOptimality) {
  for (const auto& [model, period] : {std::pair(kBase, 1.539864), std::pair(kLarge, 5.091929)}) {
    const PlanProblem problem = example(model);
    const PlanOutcome outcome = make_plan(problem, {});
    const NaiveCosts naive{problem, {}};
    EXPECT_TRUE(naive.valid(outcome.placement));
    EXPECT_NEAR(naive.period_s(outcome.placement), period, 5e-7);
    EXPECT_NEAR(outcome.period_s, period, 5e-7);
    EXPECT_TRUE(outcome.proven);
    EXPECT_EQ(outcome.lower_bound_s, outcome.period_s);
    ASSERT_TRUE(outcome.proof);
    EXPECT_TRUE(proof_holds(naive, false, *outcome.proof));
    EXPECT_GT(outcome.proof->period_s, period * (1 - 1e-5))
        << "the certificate is as good as tight";
    EXPECT_LT(outcome.work, 1'000'000u);
  }
}

// Every host is of a kind of its own: a bound with a row for each of them used to collapse.
TEST(Planner, ManyKindsOfHostsKeepATightBound) {
  Random random(5, "many kinds");
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random.uniform());
  };
  PlanProblem problem;
  for (std::size_t k = 0; k < 160; ++k) problem.layer_memory_mb.push_back(1);
  problem.cut_bytes.assign(161, 1e5);
  for (std::size_t u = 0; u < 40; ++u) {
    HostClass one{.type = format("t{}", u),
                  .hosts = {format("h{}", u)},
                  .bandwidth_mbps = 1000,
                  .memory_mb = 1e6,
                  .layer_time_s = {},
                  .barred = {}};
    const double speed = between(0.5, 4);
    for (std::size_t k = 0; k < 160; ++k) one.layer_time_s.push_back(between(0.9, 1.1) / speed);
    problem.classes.push_back(std::move(one));
  }
  PlannerOptions options;
  options.work = 60'000'000;
  const PlanOutcome outcome = make_plan(problem, options);
  const NaiveCosts naive{problem, {}};
  EXPECT_TRUE(naive.valid(outcome.placement));
  EXPECT_NEAR(naive.period_s(outcome.placement), outcome.period_s, 1e-12);
  ASSERT_TRUE(outcome.proof);
  EXPECT_TRUE(proof_holds(naive, false, *outcome.proof));
  EXPECT_LT(outcome.period_s, 1.03 * outcome.lower_bound_s);
}

TEST(Planner, AProofOfMoreThanIsTrueDoesNotHold) {
  const PlanProblem problem = example(kBase);
  PlanOutcome outcome = make_plan(problem, {});
  outcome.proof->period_s = outcome.period_s * 1.001;
  EXPECT_FALSE(proof_holds({problem, {}}, false, *outcome.proof));
}

TEST(Planner, TheSameInputGivesTheSamePlan) {
  Random random(7, "same");
  const PlanProblem problem =
      random_problem(random, {.tight_memory = true, .tight_network = true},
                     {.most_layers = 60, .most_classes = 6, .most_hosts = 9});
  const PlanOutcome first = make_plan(problem, {});
  const PlanOutcome second = make_plan(problem, {});
  EXPECT_EQ(first.placement, second.placement);
  EXPECT_EQ(first.work, second.work);
}

TEST(Planner, ASmallBudgetStillGivesAPlanAndATrueBound) {
  const PlanProblem problem = example(kLarge);
  const double best = make_plan(problem, {}).period_s;
  for (const std::uint64_t work : {1u, 1000u, 5000u, 20000u}) {
    PlannerOptions options;
    options.work = work;
    const PlanOutcome outcome = make_plan(problem, options);
    EXPECT_TRUE((NaiveCosts{problem, {}}.valid(outcome.placement)));
    EXPECT_LE(outcome.lower_bound_s, best);
    EXPECT_GE(outcome.period_s, best);
  }
}

// Three equal layers for two hosts: behind the first or behind the second. A tie between the last
// two makes the planner cut before them, one between the first two behind them.
TEST(Planner, WhatATieSendsIsACost) {
  PlanInputs inputs;
  ModelProfile model{{1, 1, 1}, 1000, {1000, 1000, 1000}, {}};
  inputs.types["board"] = {100, 1000, {{"net", {{1, "torch.float32", {1, 1, 1}}}}}};
  inputs.hosts["board"] = {"a", "b"};
  const auto first_stage = [&](std::vector<std::int64_t> tied) {
    model.tied_out = std::move(tied);
    inputs.models["net"] = model;
    PlanRequest request;
    request.model = "net";
    request.batch_size = 1;
    const PlanOutcome outcome = make_plan(make_problem(inputs, request), {});
    return std::pair(outcome.placement.front().last_cut, outcome.period_s);
  };
  EXPECT_EQ(first_stage({}).second, 2);
  EXPECT_EQ(first_stage({0, 100'000'000, 0}), std::pair(std::size_t{1}, 2.0));
  EXPECT_EQ(first_stage({100'000'000, 0, 0}), std::pair(std::size_t{2}, 2.0));
  // Whatever is cut sends 400 MB over 100 Mbit/s: one host is quicker.
  EXPECT_EQ(first_stage({100'000'000, 100'000'000, 0}), std::pair(std::size_t{3}, 3.0));
}

TEST(Planner, NoLayersNeedNoHosts) {
  const PlanOutcome outcome = make_plan(example("DummyModel"), {});
  EXPECT_TRUE(outcome.placement.empty());
  EXPECT_TRUE(outcome.proven);
  EXPECT_EQ(plan_to_yaml(name_hosts(example("DummyModel"), outcome.placement)), "[]\n");
}

TEST(Planner, SaysWhichLayerIsTooLarge) {
  PlanProblem problem = example(kBase);
  for (HostClass& one : problem.classes) one.memory_mb = 60;
  const std::string why = refusal(problem, {});
  EXPECT_NE(why.find("memory: layer 47 with its buffers needs 124.2 MB"), std::string::npos) << why;
  EXPECT_NE(why.find("the largest device"), std::string::npos) << why;
}

TEST(Planner, SaysWhenMemoryAddsUpToTooLittle) {
  PlanProblem problem = example(kBase);
  for (HostClass& one : problem.classes) one.memory_mb = 170;
  problem.classes[1].hosts.clear();
  const std::string why = refusal(problem, {});
  EXPECT_NE(why.find("memory: the layers take"), std::string::npos) << why;
  EXPECT_NE(why.find("the 4 hosts have 680.0 MB in all"), std::string::npos) << why;
}

TEST(Planner, SaysWhenNothingWasMeasured) {
  PlanRequest request;
  request.batch_size = 9;
  const std::string why = refusal(make_problem(example_inputs(), request), {});
  EXPECT_NE(why.find("of a device type that was measured for torch.float32 and batch size 9"),
            std::string::npos)
      << why;
}

TEST(Planner, SaysWhenPinsAreImpossible) {
  PlanRequest request;
  request.pins = {parse_layer_pin("1=mb-0"), parse_layer_pin("3=mb-0"), parse_layer_pin("2=mb-1")};
  const std::string why = refusal(make_problem(example_inputs(), request), {});
  EXPECT_NE(why.find("pinned layers need more hosts"), std::string::npos) << why;
  request.pins = {parse_layer_pin("2=mb-1")};
  request.excluded_hosts = {"mb-1"};
  const std::string gone = refusal(make_problem(example_inputs(), request), {});
  EXPECT_NE(gone.find("layer 2 is pinned to hosts that are not available"), std::string::npos);
}

TEST(Planner, SaysWhenTheNetworkIsMissing) {
  PlanProblem problem = example(kBase);
  for (HostClass& one : problem.classes) {
    one.bandwidth_mbps = 0;
    one.memory_mb = 400;
  }
  const std::string why = refusal(problem, {});
  EXPECT_NE(why.find("bandwidth is 0"), std::string::npos) << why;
}

TEST(Planner, ReplicatesWhereThatHelps) {
  PlanProblem problem = example(kBase);
  const double single = make_plan(problem, {}).period_s;
  PlannerOptions options;
  options.replicate = true;
  const PlanOutcome outcome = make_plan(problem, options);
  EXPECT_LT(outcome.period_s, single);
  EXPECT_TRUE((NaiveCosts{problem, {}}.valid(outcome.placement)));
  ASSERT_TRUE(outcome.proof);
  EXPECT_TRUE(proof_holds({problem, {}}, true, *outcome.proof));
}

TEST(Planner, RefusesATolerancePastItsRange) {
  PlannerOptions options;
  options.tolerance = 10;
  EXPECT_EQ(error_of([&] { static_cast<void>(make_plan(example(kBase), options)); }), "no error");
  options.tolerance = 10.5;
  EXPECT_NE(error_of([&] { static_cast<void>(make_plan(example(kBase), options)); }), "no error");
  options.tolerance = -0.1;
  EXPECT_NE(error_of([&] { static_cast<void>(make_plan(example(kBase), options)); }), "no error");
}

// Layers of all sizes on types of all speeds, none like another: as many possible stages as can be.
PlanProblem jittered(std::size_t layers, std::size_t types, std::size_t hosts) {
  Random random(5, "jittered");
  PlanProblem problem;
  problem.cut_bytes.push_back(1e5);
  for (std::size_t k = 0; k < layers; ++k) {
    problem.layer_memory_mb.push_back(1);
    problem.cut_bytes.push_back(1e5 * (1 + random.uniform()));
  }
  for (std::size_t u = 0; u < types; ++u) {
    HostClass one;
    one.type = format("t{}", u);
    for (std::size_t h = 0; h < hosts; ++h) one.hosts.push_back(format("t{}-{}", u, h));
    one.bandwidth_mbps = 2000 * (1 + random.uniform());
    one.memory_mb = 1e6;
    const double speed = 1 + 3 * random.uniform();
    for (std::size_t k = 0; k < layers; ++k) {
      one.layer_time_s.push_back(1e-3 * speed * (1 + 0.2 * random.uniform()));
    }
    problem.classes.push_back(std::move(one));
  }
  return problem;
}

TEST(Planner, ReplicationOfALargeModelWithoutOverlapIsNoWorse) {
  for (const auto& [layers, types, hosts] :
       {std::tuple(120, 8, 8), std::tuple(300, 4, 16), std::tuple(500, 8, 32)}) {
    SCOPED_TRACE(format("{} layers, {} types of {} hosts", layers, types, hosts));
    const PlanProblem problem = jittered(layers, types, hosts);
    PlannerOptions options;
    options.costs.overlap = Overlap::kNone;
    options.work = 20'000'000;  // less than it takes
    const PlanOutcome single = make_plan(problem, options);
    options.replicate = true;
    const PlanOutcome replicated = make_plan(problem, options);
    EXPECT_LE(replicated.period_s, single.period_s * (1 + 1e-9));
    EXPECT_LE(replicated.lower_bound_s, replicated.period_s);
  }
}

// Few layers and many hosts: prices per host leave one in a hundred open, prices on layers nothing.
TEST(Planner, PricesOnLayersSettleReplicatedStages) {
  for (const std::size_t hosts : {16, 250}) {
    SCOPED_TRACE(format("{} hosts of each type", hosts));
    const PlanProblem problem = jittered(40, 6, hosts);
    PlannerOptions options;
    options.replicate = true;
    const PlanOutcome outcome = make_plan(problem, options);
    EXPECT_LE(outcome.period_s, outcome.lower_bound_s * 1.002);
    ASSERT_TRUE(outcome.proof && outcome.layer_proof);
    EXPECT_GT(outcome.layer_proof->period_s, outcome.proof->period_s * 1.001);
    EXPECT_LE(outcome.layer_proof->period_s, outcome.lower_bound_s);
    const NaiveCosts naive{problem, options.costs};
    EXPECT_TRUE(naive.valid(outcome.placement));
    EXPECT_TRUE(proof_holds(naive, *outcome.layer_proof));
  }
}

TEST(Planner, WhatATolerancePermitsIsNotCalledProven) {
  PlannerOptions options;
  options.preference = PlanPreference::kFewestHosts;
  options.tolerance = 0.2;
  const PlanOutcome outcome = make_plan(example(kBase), options);
  EXPECT_GT(outcome.period_s, 1.6) << "slower, on fewer hosts";
  EXPECT_FALSE(outcome.proven);
  EXPECT_TRUE(outcome.least_proven);
  EXPECT_NEAR(outcome.least_s, 1.539864, 5e-7);
  options.tolerance = 0;
  EXPECT_TRUE(make_plan(example(kBase), options).proven);
}

// Without limits every pair of cuts is a stage: enough layers and classes pass the ceiling.
TEST(Planner, AGraphPastItsCeilingIsRefused) {
  PlanProblem problem;
  const std::size_t layers = 2000;
  problem.layer_memory_mb.assign(layers, 1);
  problem.cut_bytes.assign(layers + 1, 1);
  for (int u = 0; u < 3; ++u) {
    problem.classes.push_back(
        {format("t{}", u), {format("h{}", u), "x"}, 1000, 1e9, std::vector<double>(layers, 1), {}});
  }
  const CostModel costs(problem, {.overlap = Overlap::kNone});
  const StageGraphBuilder builder(costs, {2, 2, 2}, {});
  const std::string message =
      error_of([&] { static_cast<void>(builder.build({.period_s = 1e300})); });
  EXPECT_NE(message.find("more than 12000000 possible stages"), std::string::npos) << message;
}

TEST(Planner, AnOrderWithTooManyPlacesIsRefused) {
  PlanProblem problem;
  const std::size_t layers = 999;
  problem.layer_memory_mb.assign(layers, 1);
  problem.cut_bytes.assign(layers + 1, 1);
  const auto add_hosts = [&](std::size_t count) {
    while (problem.order.size() < count) {
      const std::string name = format("h{}", problem.order.size());
      problem.order.push_back(problem.classes.size());
      problem.classes.push_back({name, {name}, 1000, 1e9, std::vector<double>(layers, 1), {}});
    }
  };
  const auto error = [&] {
    const CostModel costs(problem, {});
    const std::vector<std::uint16_t> capacity(problem.classes.size(), 1);
    const StageGraphBuilder builder(costs, capacity, problem.order);
    return error_of([&] { static_cast<void>(builder.build({.period_s = 1})); });
  };
  add_hosts(499);
  EXPECT_EQ(error(), "no error") << "1000 cuts x 500 places";
  add_hosts(500);
  EXPECT_NE(error().find("more than 500000 places"), std::string::npos);
}

// A search that may keep only a few partial plans gives up, and says that it did.
TEST(Planner, SearchesHoldTheirCeilingOfPartialPlans) {
  const PlanProblem problem = example(kBase);
  const CostModel costs(problem, {});
  const std::vector<std::uint16_t> capacity = {4, 4};
  const StageGraphBuilder builder(costs, capacity, {});
  WorkBudget budget(1'000'000'000);
  const StageGraph graph = builder.build({.period_s = 1.7, .only_best = false});
  HostPricing pricing(builder.capacity(), budget);
  const Relaxation relaxation = pricing.solve(graph, RelaxationDepth::kBestPrices);
  ASSERT_FALSE(relaxation.prices.empty());
  EXPECT_LE(relaxation.prices.size(), kMaxPriceVectors);
  for (const auto& search : {search_path, search_by_node}) {
    PathQuestion question{.graph = graph,
                          .capacity = builder.capacity(),
                          .prices = relaxation.prices,
                          .width = 10'000};
    EXPECT_EQ(search(question, budget).verdict, SearchVerdict::kFound);
    question.max_labels = 20;
    EXPECT_EQ(search(question, budget).verdict, SearchVerdict::kUnknown);
    question.max_labels = kMaxSearchLabels;
    WorkBudget nothing(1);
    EXPECT_EQ(search(question, nothing).verdict, SearchVerdict::kUnknown);
  }
}

TEST(Planner, ListsCandidatePeriodsUpToACeiling) {
  const PlanProblem problem = example(kBase);
  const CostModel costs(problem, {});
  WorkBudget budget(1'000'000'000);
  const StageGraphBuilder single(costs, {4, 4}, {});
  const auto few = candidate_periods(single, false, 1.5, 1.6, budget);
  ASSERT_TRUE(few);
  EXPECT_TRUE(std::ranges::is_sorted(*few));
  for (const double period : *few) EXPECT_TRUE(period > 1.5 && period < 1.6);
  const StageGraphBuilder many(costs, {60'000, 60'000}, {});
  EXPECT_FALSE(candidate_periods(many, true, 1e-6, 10, budget));
}

TEST(Planner, TakesALargeProblemWithManyHosts) {
  Random random(3, "large");
  PlanProblem problem;
  const std::size_t layers = 300;
  problem.cut_bytes.push_back(1e6);
  for (std::size_t k = 0; k < layers; ++k) {
    problem.layer_memory_mb.push_back(20 + static_cast<double>(random.below(10)));
    problem.cut_bytes.push_back(1e6 * static_cast<double>(1 + random.below(4)));
  }
  for (int u = 0; u < 6; ++u) {
    HostClass one{format("t{}", u), {}, 1000, 400, {}, {}};
    for (int k = 0; k < 20; ++k) one.hosts.push_back(format("t{}-{}", u, k));
    for (std::size_t k = 0; k < layers; ++k) {
      one.layer_time_s.push_back(0.1 * (1 + random.uniform()) / (1 + 0.5 * u));
    }
    problem.classes.push_back(std::move(one));
  }
  const PlanOutcome outcome = make_plan(problem, {});
  const NaiveCosts naive{problem, {}};
  EXPECT_TRUE(naive.valid(outcome.placement));
  EXPECT_NEAR(naive.period_s(outcome.placement), outcome.period_s, 1e-9);
  EXPECT_LE(outcome.period_s, outcome.lower_bound_s * 1.004);
  ASSERT_TRUE(outcome.proof);
  EXPECT_TRUE(proof_holds(naive, false, *outcome.proof));
}

}  // namespace
}  // namespace harmonics::inline in_plan
