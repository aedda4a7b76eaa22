#include <gtest/gtest.h>

#include <limits>

#include <harmonics/plan/cost_model.h>
#include <harmonics/plan/placement.h>

#include <error_testing.h>

#include "plan_testing.h"

namespace harmonics::inline in_plan {
namespace {

// Two layers; 1 MB enters, 2 MB cross, 3 MB leave; a fast and a slow host.
PlanProblem two_layers() {
  PlanProblem problem;
  problem.layer_memory_mb = {10, 20};
  problem.cut_bytes = {1 * kBytesPerMegabyte, 2 * kBytesPerMegabyte, 3 * kBytesPerMegabyte};
  problem.classes = {{"fast", {"a"}, 16, 1000, {0.5, 0.25}, {}},
                     {"slow", {"b"}, 8, 1000, {2, 1}, {}}};
  return problem;
}

TEST(CostModel, MemoryCountsLayersAndBuffers) {
  const CostModel costs(two_layers(), {.buffers_in = 2, .buffers_out = 3});
  // Layer 10 + send 3 * 2 + processing 1 + 2: nothing is received at the first cut.
  EXPECT_DOUBLE_EQ(costs.memory_bytes(0, 1) / kBytesPerMegabyte, 10 + 6 + 1 + 2);
  // Layer 20 + receive 2 * 2 + send 3 * 3 + processing 2 + 3: the last stage has send buffers too.
  EXPECT_DOUBLE_EQ(costs.memory_bytes(1, 2) / kBytesPerMegabyte, 20 + 4 + 9 + 2 + 3);
  EXPECT_DOUBLE_EQ(costs.memory_bytes(0, 2) / kBytesPerMegabyte, 30 + 9 + 1 + 3);
  EXPECT_GE(costs.most_memory_bytes(0, 2), costs.memory_bytes(0, 2));
}

TEST(CostModel, WhatIsTiedMovesAndTakesNoBuffers) {
  PlanProblem problem = two_layers();
  const CostModel plain(problem, {});
  problem.tied_bytes = {0, 6 * kBytesPerMegabyte, 0};
  const CostModel tied(problem, {});
  EXPECT_DOUBLE_EQ(tied.transfer_s(1, kBytesPerMegabyte), 8);
  EXPECT_DOUBLE_EQ(tied.transfer_s(2, kBytesPerMegabyte), 3);
  EXPECT_EQ(tied.memory_bytes(1, 2), plain.memory_bytes(1, 2));
  problem.tied_bytes.pop_back();
  EXPECT_THROW(CostModel(problem, {}), Error);
}

TEST(CostModel, MemoryMustBeStrictlyLess) {
  PlanProblem problem = two_layers();
  problem.classes[0].memory_mb = 30 + 6 + 1 + 3;
  EXPECT_FALSE(CostModel(problem, {}).allowed(0, 0, 2));
  problem.classes[0].memory_mb += 0.001;
  EXPECT_TRUE(CostModel(problem, {}).allowed(0, 0, 2));
}

TEST(CostModel, BarredLayersAreNotAllowed) {
  PlanProblem problem = two_layers();
  problem.classes[1].barred = {false, true};
  const CostModel costs(problem, {});
  EXPECT_TRUE(costs.allowed(1, 0, 1));
  EXPECT_FALSE(costs.allowed(1, 1, 2));
  EXPECT_FALSE(costs.allowed(1, 0, 2));
}

TEST(CostModel, TransfersTakeTheSmallerBandwidthAndMegabitsAreBinary) {
  const CostModel costs(two_layers(), {});
  EXPECT_DOUBLE_EQ(costs.bandwidth(0, 1), 8 * 131072.0);
  EXPECT_DOUBLE_EQ(costs.transfer_s(1, costs.bandwidth(0, 1)), 2.0);
  EXPECT_EQ(costs.transfer_s(1, 0), std::numeric_limits<double>::infinity());
}

TEST(CostModel, WithoutOverlapTimesAddUp) {
  const Placement plan = {{0, 1, 0, 1}, {1, 2, 1, 1}};
  const PlanProblem problem = two_layers();
  const CostModel overlapping(problem, {});
  EXPECT_TRUE(overlapping.independent_ends());
  EXPECT_DOUBLE_EQ(period_of(overlapping, plan), 2.0);
  EXPECT_DOUBLE_EQ(latency_of(overlapping, plan), 0.5 + 2 + 1);
  const CostModel summing(problem, {.overlap = Overlap::kNone});
  EXPECT_FALSE(summing.independent_ends());
  EXPECT_DOUBLE_EQ(stage_costs(summing, plan, 0).period_s, 0.5 + 2);
  EXPECT_DOUBLE_EQ(stage_costs(summing, plan, 1).period_s, 1 + 2);
  EXPECT_DOUBLE_EQ(latency_of(summing, plan), 0.5 + 2 + 1);
}

TEST(CostModel, LinksLimitBothEnds) {
  PlanProblem problem = two_layers();
  problem.link_mbps = {16, 4, 4, 8};
  const CostModel costs(problem, {});
  EXPECT_FALSE(costs.independent_ends());
  const Placement plan = {{0, 1, 0, 1}, {1, 2, 1, 1}};
  EXPECT_DOUBLE_EQ(stage_costs(costs, plan, 0).send_s, 4.0);
  EXPECT_DOUBLE_EQ(stage_costs(costs, plan, 1).receive_s, 4.0);
}

TEST(CostModel, HostsOfAStageShareItsPeriod) {
  PlanProblem problem = two_layers();
  problem.classes[1].hosts = {"b", "c", "d", "e"};
  const CostModel costs(problem, {});
  EXPECT_DOUBLE_EQ(period_of(costs, Placement{{0, 2, 1, 4}}), 3.0 / 4);
  EXPECT_DOUBLE_EQ(latency_of(costs, Placement{{0, 2, 1, 4}}), 3.0);
}

TEST(CostModel, RefusesProblemsThatAreNotInOrder) {
  const auto error = [](auto change) {
    PlanProblem problem = two_layers();
    change(problem);
    return error_of([&] { CostModel(problem, {}); });
  };
  EXPECT_EQ(error([](PlanProblem&) {}), "no error");
  EXPECT_NE(error([](PlanProblem& p) { p.cut_bytes.pop_back(); }), "no error");
  EXPECT_NE(error([](PlanProblem& p) { p.layer_memory_mb[0] = -1; }), "no error");
  EXPECT_NE(error([](PlanProblem& p) { p.classes[0].layer_time_s[0] = 0.0 / 0.0; }), "no error");
  EXPECT_NE(error([](PlanProblem& p) { p.classes[0].barred = {true}; }), "no error");
  EXPECT_NE(error([](PlanProblem& p) { p.link_mbps = {1}; }), "no error");
  EXPECT_NE(error([](PlanProblem& p) { p.order = {0, 0}; }), "no error");
  EXPECT_NE(error([](PlanProblem& p) { p.order = {2}; }), "no error");
  EXPECT_NE(error_of([] { CostModel(two_layers(), {.buffers_in = -1}); }), "no error");
}

TEST(CostModel, HoldsTheCeilings) {
  PlanProblem problem;
  problem.cut_bytes = {0};
  problem.classes.resize(kMaxHostClasses);
  EXPECT_EQ(error_of([&] { check_problem(problem); }), "no error");
  problem.classes.resize(kMaxHostClasses + 1);
  EXPECT_NE(error_of([&] { check_problem(problem); }), "no error");
  problem.classes.resize(1);
  problem.classes[0].hosts.resize(kMaxPlanHosts);
  EXPECT_EQ(error_of([&] { check_problem(problem); }), "no error");
  problem.classes[0].hosts.resize(kMaxPlanHosts + 1);
  EXPECT_NE(error_of([&] { check_problem(problem); }), "no error");
  problem.classes.clear();
  problem.layer_memory_mb.resize(kMaxPlanLayers);
  problem.cut_bytes.resize(kMaxPlanLayers + 1);
  EXPECT_EQ(error_of([&] { check_problem(problem); }), "no error");
  problem.layer_memory_mb.resize(kMaxPlanLayers + 1);
  problem.cut_bytes.resize(kMaxPlanLayers + 2);
  EXPECT_NE(error_of([&] { check_problem(problem); }), "no error");
}

}  // namespace
}  // namespace harmonics::inline in_plan
