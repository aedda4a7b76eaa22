#include "balance.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/random.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>

#include "random_graph_testing.h"

namespace harmonics::inline in_graph {
namespace {

using ::testing::ElementsAre;

// The largest share of a cut; -1 when a run is empty or the cut does not begin with 0.
double largest_share(const std::vector<double>& costs, const std::vector<double>& weights,
                     const std::vector<std::size_t>& starts) {
  if (starts.size() != weights.size() || starts[0] != 0) return -1;
  double largest = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : costs.size();
    if (end <= starts[i] || end > costs.size()) return -1;
    double cost = 0;
    for (std::size_t k = starts[i]; k < end; ++k) cost += costs[k];
    largest = std::max(largest, cost / weights[i]);
  }
  return largest;
}

// The dumb twin: tries every cut.
double best_share(const std::vector<double>& costs, const std::vector<double>& weights,
                  std::size_t begin = 0, std::size_t worker = 0) {
  const bool last = worker + 1 == weights.size();
  double best = std::numeric_limits<double>::infinity();
  double cost = 0;
  for (std::size_t end = begin + 1; end + (weights.size() - worker - 1) <= costs.size(); ++end) {
    cost += costs[end - 1];
    if (last && end != costs.size()) continue;
    const double rest = last ? 0 : best_share(costs, weights, end, worker + 1);
    best = std::min(best, std::max(cost / weights[worker], rest));
  }
  return best;
}

std::vector<double> random_numbers(Random& random, std::size_t count, std::uint64_t largest) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<double>(1 + random.below(largest)));
  }
  return numbers;
}

TEST(BalanceTest, IsAsGoodAsTryingEveryCut) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed, "balance");
    const std::uint64_t largest = seed % 3 == 0 ? 3 : 1000;
    const std::vector<double> costs = random_numbers(random, 1 + random.below(11), largest);
    for (std::size_t workers = 1; workers <= costs.size(); ++workers) {
      const std::vector<double> equal(workers, 2.5);
      const std::vector<double> unequal = random_numbers(random, workers, 8);
      for (const auto& weights : {equal, unequal}) {
        const auto starts = balance(costs, weights);
        ASSERT_EQ(largest_share(costs, weights, starts), best_share(costs, weights))
            << "seed " << seed << ", " << workers << " workers";
      }
    }
  }
}

TEST(BalanceTest, ALightWorkerGetsALightItemThoughAHeavyOneHasRoom) {
  EXPECT_THAT(balance(std::vector<double>{1, 1, 100, 1}, std::vector<double>{10, 1, 10}),
              ElementsAre(0, 1, 2));
}

TEST(BalanceTest, ExtremeWeightsStillGiveEveryoneWork) {
  const std::vector<double> costs(6, 5.0);
  EXPECT_THAT(balance(costs, std::vector<double>{1e-9, 1e9, 1e-9}), ElementsAre(0, 1, 5));
  EXPECT_THAT(balance(costs, std::vector<double>{1, 2, 3}), ElementsAre(0, 1, 3));
}

TEST(BalanceTest, PartitionsOfGraphsAreAsEvenAsAnyCutBetweenTheirUnits) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomGraphOptions options;
    options.max_layers = 12;
    options.groups = seed % 3 == 0;
    const HarmonicGraph graph = random_graph(seed, options);
    std::vector<double> layers;
    std::vector<double> units;
    for (std::size_t i = 0; i < graph.layers().size(); ++i) layers.push_back(layer_cost(graph, i));
    for (const Unit& unit : graph_units(graph)) {
      const auto count = static_cast<double>(unit.last_layer - unit.first_layer + 1);
      units.push_back(unit.flops + count * kLayerOverheadFlops);
    }
    for (std::size_t count = 1; count <= layers.size(); ++count) {
      double largest = 0;
      for (const HarmonicGraph& part : partition_graph(graph, count)) {
        double cost = 0;
        for (std::size_t i = 0; i < part.layers().size(); ++i) cost += layer_cost(part, i);
        largest = std::max(largest, cost);
      }
      const std::vector<double>& pieces = count <= units.size() ? units : layers;
      EXPECT_EQ(largest, best_share(pieces, std::vector<double>(count, 1.0)))
          << "seed " << seed << ", " << count << " parts";
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_graph
