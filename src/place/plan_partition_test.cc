#include <harmonics/place/plan_partition.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/place/place.h>
#include <harmonics/plan/placement.h>
#include <harmonics/plan/planner.h>

#include <error_testing.h>

namespace harmonics::inline in_place {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `units` groups of two layers each, one after another.
HarmonicGraph chain(std::size_t units) {
  GraphBuilder b("net");
  b.producer("x0", Shape{4});
  for (std::size_t i = 1; i <= units; ++i) {
    b.group(format("g{}", i));
    b.layer(format("y{}", i), "identity", {}, {format("x{}", i - 1)});
    b.layer(format("x{}", i), "identity", {}, {format("y{}", i)});
  }
  return b.group("").consumer("output", format("x{}", units)).build();
}

std::vector<std::size_t> layer_counts(const std::vector<HarmonicGraph>& parts) {
  std::vector<std::size_t> counts;
  for (const HarmonicGraph& part : parts) counts.push_back(part.layers().size());
  return counts;
}

// A model of `layers` layers that takes 1 MB each, on types named by their seconds per layer.
MeasuredCosts costs_of(std::size_t layers, const std::map<std::string, double>& seconds) {
  MeasuredCosts measured;
  measured.model = "net";
  measured.batch_size = 2;
  measured.models["net"] = {std::vector<double>(layers, 1.0), 4,
                            std::vector<std::int64_t>(layers, 4)};
  for (const auto& [type, time_s] : seconds) {
    measured.types[type] = {1000, 64, {{"net", {{2, "torch.float32", {}}}}}};
    measured.types[type].models["net"][0].time_s.assign(layers, time_s);
  }
  return measured;
}

DeploymentDescriptor deployment_of(std::size_t parts) {
  DeploymentDescriptor deploy;
  deploy.partitions.assign(parts, {Backend::CPU});
  return deploy;
}

TEST(PartitionByPlan, LayersOfThePlanAreUnitsOfTheGraph) {
  const HarmonicGraph graph = chain(6);
  const Plan plan{{{{"a"}, 1, 1}, {{"b", "c"}, 2, 5}, {{"d"}, 6, 6}}};
  EXPECT_EQ(partition_graph(graph, plan), cut_graph(graph, std::vector<std::size_t>{0, 2, 10}));
  EXPECT_EQ(partition_graph(graph, Plan{{{{"a"}, 1, 6}}}).size(), 1u);
}

TEST(PartitionByPlan, CutsVisionTransformersAtTheirGroups) {
  const HarmonicGraph graph = zoo_graph("vit-base");
  const std::vector<Unit> units = graph_units(graph);
  const auto parts = partition_graph(graph, Plan{{{{"a"}, 1, 6}, {{"b"}, 7, 48}}});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].layers().size(), units[6].first_layer);
}

TEST(PartitionByPlan, PlansOfAnotherGraphAreErrors) {
  const auto invalid = ErrorCode::kInvalidArgument;
  const HarmonicGraph graph = chain(4);
  const auto refuse = [&](std::vector<PlanStage> stages, const std::string& text) {
    expect_error(invalid, text, [&] { (void)partition_graph(graph, Plan{stages}); });
  };
  refuse({}, "places 0 layers, graph 'net' has 4");
  refuse({{{"a"}, 1, 3}}, "places 3 layers, graph 'net' has 4");
  refuse({{{"a"}, 1, 5}}, "stage [1, 5] does not fit graph 'net'");
  refuse({{{"a"}, 0, 4}}, "layer 1 comes next");
  refuse({{{"a"}, 2, 4}}, "layer 1 comes next");
  refuse({{{"a"}, 1, 2}, {{"b"}, 2, 4}}, "layer 3 comes next");
  refuse({{{"a"}, 1, 2}, {{"b"}, 3, 2}}, "stage [3, 2]");
  refuse({{{"a"}, 1, 4}, {{"b"}, 5, 5}}, "and there are 4");
  const HarmonicGraph open =
      GraphBuilder("net").producer("x").layer("y", "identity", {}, {"x"}).build();
  expect_error(ErrorCode::kFailedPrecondition, "'x'", [&] {
    (void)partition_graph(open, Plan{{{{"a"}, 1, 1}}});
  });
}

TEST(AutoPartitionByCosts, SlowTypesGetLess) {
  MeasuredCosts measured = costs_of(14, {{"fast", 1.0}, {"slow", 3.0}});
  measured.partition_types = {"slow", "fast", "fast"};
  // 2 * 3 s and twice 6 * 1 s: every other cut is slower.
  EXPECT_THAT(layer_counts(auto_partition(chain(14), deployment_of(3), measured)),
              ElementsAre(4, 12, 12));
  measured.partition_types = {"slow"};
  EXPECT_EQ(auto_partition(chain(14), deployment_of(1), measured).size(), 1u);
}

TEST(AutoPartitionByCosts, WeightsPlayNoRole) {
  MeasuredCosts measured = costs_of(6, {{"any", 1.0}});
  measured.partition_types = {"any", "any"};
  DeploymentDescriptor deploy = deployment_of(2);
  deploy.partitions[0].weight = 100;
  EXPECT_THAT(layer_counts(auto_partition(chain(6), deploy, measured)), ElementsAre(6, 6));
}

TEST(AutoPartitionByCosts, MemoryMovesTheCut) {
  MeasuredCosts measured = costs_of(6, {{"small", 1.0}, {"big", 1.0}});
  measured.types["small"].memory_mb = 2.5;  // two layers of 1 MB and their buffers
  measured.partition_types = {"small", "big"};
  EXPECT_THAT(layer_counts(auto_partition(chain(6), deployment_of(2), measured)),
              ElementsAre(4, 8));
  measured.types["small"].memory_mb = 0.5;
  EXPECT_THROW((void)auto_partition(chain(6), deployment_of(2), measured), NoFeasiblePlan);
}

TEST(AutoPartitionByCosts, AWideCutOnASlowNetworkIsAvoided) {
  MeasuredCosts measured = costs_of(4, {{"any", 1.0}});
  measured.types["any"].bandwidth_mbps = 1;
  measured.models["net"].parameters_out = {4, 1'000'000, 4, 4};
  measured.partition_types = {"any", "any"};
  const auto counts = layer_counts(auto_partition(chain(4), deployment_of(2), measured));
  EXPECT_NE(counts[0], 4u);  // 2 units: the even cut would cross at the wide tensor
  measured.types["any"].bandwidth_mbps = 0;
  EXPECT_THROW((void)auto_partition(chain(4), deployment_of(2), measured), NoFeasiblePlan);
}

// All ways to give `parts` partitions at least one unit each.
double best_period(const CostModel& costs, std::size_t parts, Placement& placement,
                   std::size_t cut) {
  if (placement.size() == parts) {
    return cut == costs.layers() ? period_of(costs, placement)
                                 : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t next = cut + 1; next <= costs.layers(); ++next) {
    if (!costs.allowed(placement.size(), cut, next)) continue;
    placement.push_back({cut, next, placement.size(), 1});
    best = std::min(best, best_period(costs, parts, placement, next));
    placement.pop_back();
  }
  return best;
}

TEST(AutoPartitionByCosts, IsAsFastAsTryingEveryCut) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed, "auto_partition");
    const std::size_t layers = 1 + random.below(8);
    const std::size_t parts = 1 + random.below(std::min<std::uint64_t>(layers, 4));
    MeasuredCosts measured = costs_of(layers, {{"a", 1}, {"b", 1}, {"c", 1}});
    if (random.below(2) == 0) measured.costs.overlap = Overlap::kNone;
    for (double& memory : measured.models["net"].memory_mb) memory = random.uniform();
    for (auto& out : measured.models["net"].parameters_out) {
      out = static_cast<std::int64_t>(random.below(30'000));
    }
    for (auto& [name, type] : measured.types) {
      type.bandwidth_mbps = static_cast<double>(1 + random.below(4));
      type.memory_mb = 1 + 4 * random.uniform();
      for (double& time_s : type.models["net"][0].time_s) time_s = random.uniform();
    }
    PlanProblem problem;
    problem.layer_memory_mb = measured.models["net"].memory_mb;
    problem.cut_bytes = {4 * 4 * 2};
    for (const auto out : measured.models["net"].parameters_out) {
      problem.cut_bytes.push_back(static_cast<double>(out) * 4 * 2);
    }
    for (std::size_t part = 0; part < parts; ++part) {
      const std::string type(1, static_cast<char>('a' + random.below(3)));
      measured.partition_types.push_back(type);
      const DeviceTypeProfile& device = measured.types[type];
      problem.classes.push_back({type,
                                 {format("h{}", part)},
                                 device.bandwidth_mbps,
                                 device.memory_mb,
                                 device.models.at("net")[0].time_s,
                                 {}});
    }
    const CostModel costs(problem, measured.costs);
    Placement tried;
    const double best = best_period(costs, parts, tried, 0);
    const HarmonicGraph graph = chain(layers);
    if (best == std::numeric_limits<double>::infinity()) {
      EXPECT_THROW((void)auto_partition(graph, deployment_of(parts), measured), NoFeasiblePlan);
      continue;
    }
    ++feasible;
    Placement found;
    std::size_t cut = 0;
    for (const HarmonicGraph& part : auto_partition(graph, deployment_of(parts), measured)) {
      const std::size_t next = cut + part.layers().size() / 2;
      EXPECT_TRUE(costs.allowed(found.size(), cut, next));
      found.push_back({cut, next, found.size(), 1});
      cut = next;
    }
    EXPECT_DOUBLE_EQ(period_of(costs, found), best) << "seed " << seed;
  }
  EXPECT_GT(feasible, 100);
}

TEST(AutoPartitionByCosts, WhatWasNotMeasuredIsAnError) {
  const auto invalid = ErrorCode::kInvalidArgument;
  const HarmonicGraph graph = chain(3);
  MeasuredCosts measured = costs_of(3, {{"any", 1.0}});
  const auto refuse = [&](ErrorCode code, const std::string& text, std::size_t parts) {
    expect_error(code, text, [&] { (void)auto_partition(graph, deployment_of(parts), measured); });
  };
  refuse(invalid, "has 0 partitions; a graph with 3 units takes 1 to 3", 0);
  refuse(invalid, "has 4 partitions", 4);
  refuse(invalid, "device types are given for 0", 2);
  measured.partition_types = {"any", "other"};
  refuse(ErrorCode::kNotFound, "'other' was not measured; there are: any", 2);
  measured.partition_types = {"any", "any"};
  measured.batch_size = 9;
  refuse(ErrorCode::kNotFound, "not measured for model 'net', torch.float32, batch size 9", 2);
  measured.model = "mesh";
  refuse(ErrorCode::kNotFound, "model 'mesh' was not measured; there are: net", 2);
  measured = costs_of(5, {{"any", 1.0}});
  measured.partition_types = {"any", "any"};
  refuse(ErrorCode::kFailedPrecondition, "measured with 5 layers, the graph has 3 units", 2);
}

TEST(AutoPartitionByCosts, ReachesItsCeiling) {
  const std::size_t units = kMaxPartitions + 1;
  MeasuredCosts measured = costs_of(units, {{"any", 1.0}});
  measured.partition_types.assign(kMaxPartitions, "any");
  const HarmonicGraph graph = chain(units);
  EXPECT_EQ(auto_partition(graph, deployment_of(kMaxPartitions), measured).size(), kMaxPartitions);
  expect_error(ErrorCode::kInvalidArgument, "takes 1 to 4096",
               [&] { (void)auto_partition(graph, deployment_of(units), measured); });
}

}  // namespace
}  // namespace harmonics::inline in_place
