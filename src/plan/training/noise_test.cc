#include <harmonics/plan/noise.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/plan/planner.h>

namespace harmonics::inline in_plan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Ten layers of 1 s on two hosts, each of a kind of its own.
PlanProblem ten_layers(double spread) {
  PlanProblem problem;
  problem.model = "m";
  problem.layer_memory_mb.assign(10, 1);
  problem.cut_bytes.assign(11, 0);
  for (const char* name : {"desk", "shelf"}) {
    HostClass hosts;
    hosts.type = name;
    hosts.hosts = {name};
    hosts.bandwidth_mbps = 1000;
    hosts.memory_mb = 1000;
    hosts.layer_time_s.assign(10, 1);
    if (spread > 0) hosts.time_spread.assign(10, spread);
    problem.classes.push_back(hosts);
  }
  return problem;
}

std::vector<NoisyCut> noise_of(const PlanProblem& problem) {
  return noisy_cuts(problem, {}, make_plan(problem, {}).placement);
}

TEST(Noise, ACutThatAnyMeasurementWouldChooseIsNotNamed) {
  EXPECT_THAT(noise_of(ten_layers(0)), IsEmpty());
  // 5 s against 5 s with 1 % each: a sixth layer would cost a whole second.
  EXPECT_THAT(noise_of(ten_layers(0.01)), IsEmpty());
}

TEST(Noise, SaysHowFarACutMayMove) {
  // Each stage is 5 s +- sqrt(5) * 0.6 s, 27 %: 6.3 s against 3.7 s are better cut at four layers.
  const std::vector<NoisyCut> cuts = noise_of(ten_layers(0.6));
  ASSERT_THAT(cuts, SizeIs(1));
  EXPECT_EQ(cuts[0].behind_layer, 5U);
  EXPECT_EQ(cuts[0].may_move_by, 1U);
  EXPECT_NEAR(cuts[0].spread_before, 0.268, 0.001);
  EXPECT_NEAR(cuts[0].spread_after, 0.268, 0.001);
  EXPECT_THAT(noise_to_text(cuts), HasSubstr("behind layer 5, may move by 1 layer\n"));
  EXPECT_EQ(noise_to_json(cuts).as_array()[0].at("may_move_by").as_integer(), 1);
}

TEST(Noise, WhatMemoryForbidsIsNoOtherCut) {
  PlanProblem problem = ten_layers(0.6);
  for (HostClass& hosts : problem.classes) hosts.memory_mb = 5.5;
  EXPECT_THAT(noise_of(problem), IsEmpty());
}

TEST(Noise, WhereALinkBindsTheNoiseOfLayersMovesNothing) {
  PlanProblem problem = ten_layers(0.6);
  problem.cut_bytes.assign(11, 1e9);
  problem.cut_bytes[5] = 1e8;  // 0.8 s at 1000 Mbps, the others 7.6 s
  for (HostClass& hosts : problem.classes) hosts.bandwidth_mbps = 50;
  for (HostClass& hosts : problem.classes) hosts.memory_mb = 1e6;
  PlacedStage first{0, 5, 0, 1};
  EXPECT_THAT(noisy_cuts(problem, {}, {first, {5, 10, 1, 1}}), IsEmpty());
}

}  // namespace
}  // namespace harmonics::inline in_plan
