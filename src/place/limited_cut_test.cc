// Cuts for unlike devices against a brute force that tries every one: up to 16 layers, 4 devices.
#include "limited_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>
#include <harmonics/place/profile_memory.h>

namespace harmonics::inline in_place {
namespace {

using ::testing::HasSubstr;

// Layers whose costs lie up to three powers of ten apart.
HarmonicGraph skewed(std::size_t layers, Random& random, bool learns) {
  GraphBuilder builder("skewed");
  builder.producer("x0", Shape{8});
  for (std::size_t i = 1; i <= layers; ++i) {
    const std::int64_t width = std::int64_t{1} << (2 + random.below(7));
    builder.layer(format("x{}", i), "linear", {{"out", width}}, {format("x{}", i - 1)},
                  random.below(2) == 0 ? "relu" : "");
  }
  const std::string last = format("x{}", layers);
  builder.layer("end", "linear", {{"out", std::int64_t{2}}}, {last});
  if (learns) builder.producer("t", Shape{2}).tap("mse", "end", "t");
  return builder.consumer("out", "end").build();
}

class BruteForce {
 public:
  BruteForce(const HarmonicGraph& graph, std::span<const double> weights,
             const PartitionLimits& limits)
      : graph_(graph), weights_(weights), limits_(limits) {}

  double best() {
    visit(0, 0, 0);
    return best_;
  }
  double bottleneck(const std::vector<std::size_t>& first_layers) const {
    double worst = 0;
    for (std::size_t part = 0; part < first_layers.size(); ++part) {
      const std::size_t end =
          part + 1 < first_layers.size() ? first_layers[part + 1] : graph_.layers().size();
      EXPECT_TRUE(fits(part, first_layers[part], end)) << "part " << part;
      worst = std::max(worst, load(part, first_layers[part], end));
    }
    return worst;
  }

 private:
  double load(std::size_t part, std::size_t first, std::size_t end) const {
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) sum += layer_cost(graph_, i);
    return sum / weights_[part];
  }
  bool fits(std::size_t part, std::size_t first, std::size_t end) const {
    return !limits_.memory_mb[part] ||
           part_bytes(graph_, first, end, limits_, weights_.size() - part) <=
               *limits_.memory_mb[part] * 1e6;
  }
  void visit(std::size_t part, std::size_t first, double worst) {
    const std::size_t layers = graph_.layers().size();
    if (part + 1 == weights_.size()) {
      if (first < layers && fits(part, first, layers)) {
        best_ = std::min(best_, std::max(worst, load(part, first, layers)));
      }
      return;
    }
    for (std::size_t end = first + 1; end < layers; ++end) {
      if (!fits(part, first, end)) continue;
      visit(part + 1, end, std::max(worst, load(part, first, end)));
    }
  }

  const HarmonicGraph& graph_;
  std::span<const double> weights_;
  const PartitionLimits& limits_;
  double best_ = std::numeric_limits<double>::infinity();
};

TEST(SkewedNetworks, TheBottleneckIsWithinTwoPercentOfBruteForce) {
  Random random(11, "skewed");
  int infeasible = 0, limited = 0;
  for (int round = 0; round < 300; ++round) {
    const HarmonicGraph graph = skewed(3 + random.below(13), random, random.below(2) == 0);
    std::vector<double> weights(2 + random.below(3));
    for (double& weight : weights) weight = 0.5 + 4.0 * random.uniform();
    PartitionLimits limits;
    limits.micro_batch = 1 + static_cast<std::int64_t>(random.below(16));
    limits.memory_mb.resize(weights.size());
    if (round % 2 == 1) {
      for (auto& limit : limits.memory_mb) {
        if (random.below(2) == 0) limit = 0.02 + random.uniform();
      }
    }
    BruteForce brute(graph, weights, limits);
    const double best = brute.best();
    if (best == std::numeric_limits<double>::infinity()) {
      ++infeasible;
      EXPECT_THROW(static_cast<void>(limited_first_layers(graph, weights, limits)), Error);
      continue;
    }
    EXPECT_LE(brute.bottleneck(limited_first_layers(graph, weights, limits)), 1.02 * best) << round;
    const PartitionLimits none{std::vector<std::optional<double>>(weights.size()), 1};
    BruteForce free(graph, weights, none);
    EXPECT_LE(free.bottleneck(balanced_first_layers(graph, weights)), 1.02 * free.best()) << round;
    limited += best > free.best();
  }
  EXPECT_GT(infeasible, 0) << "no round was without an answer";
  EXPECT_GT(limited, 0) << "no round was decided by memory";
}

TEST(SkewedNetworks, MemoryIsCountedAsTheProfilerCountsIt) {
  Random random(3, "memory");
  const HarmonicGraph graph = skewed(9, random, true);
  const PartitionLimits limits{{}, 4};
  const std::vector<std::size_t> first_layers = {0, 3, 7};
  const std::vector<HarmonicGraph> parts = cut_graph(graph, first_layers);
  for (std::size_t part = 0; part < 2; ++part) {  // the last one also holds the tap's target
    const int behind = 3 - static_cast<int>(part);
    const UnitMemory memory = part_memory(parts[part], ProfileMode::kTraining, 4, {2, behind});
    EXPECT_EQ(part_bytes(graph, first_layers[part], first_layers[part + 1], limits,
                         static_cast<std::size_t>(behind)),
              static_cast<double>(memory.total()));
  }
}

TEST(SkewedNetworks, WhatCannotFitSaysWhatItNeeds) {
  Random random(3, "memory");
  const HarmonicGraph graph = skewed(6, random, true);
  const std::vector<double> weights = {1, 1};
  try {
    static_cast<void>(limited_first_layers(graph, weights, {{0.001, std::nullopt}, 1}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.what(), HasSubstr("of 0.001"));
  }
  EXPECT_THROW(static_cast<void>(limited_first_layers(graph, weights, {{1.0}, 1})), Error);
}

}  // namespace
}  // namespace harmonics::inline in_place
