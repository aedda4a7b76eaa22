// DESIGN's promise "the same answer": outputs, gradients and weights of a cut graph equal those of
// the whole graph bit for bit, for random graphs, every number of parts and every pipeline order.
#include <gtest/gtest.h>

#include <algorithm>

#include <random_graph_testing.h>

#include <harmonics/base/random.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/stage_row.h>

#include "parts/pipeline_runner.h"

namespace harmonics::inline in_schedule {
namespace {

Tensor random_batch(const ProducerNode& node, std::int64_t rows, std::uint64_t seed) {
  Shape shape = *node.shape;
  shape.insert(shape.begin(), rows);
  Tensor out = Tensor::empty(shape, node.dtype);
  Random random(seed, node.name);
  if (node.dtype == DType::kInt64) {
    for (auto& value : out.mutable_values<std::int64_t>()) value = random.below(4);
  } else {
    for (auto& value : out.mutable_values<float>()) value = random.normal();
  }
  return out;
}

NamedTensors random_inputs(const HarmonicGraph& graph, std::int64_t rows, std::uint64_t seed) {
  NamedTensors inputs;
  for (const ProducerNode& node : graph.producers()) {
    inputs[node.name] = random_batch(node, rows, seed);
  }
  return inputs;
}

RuntimeOptions options(int micro_batches) {
  RuntimeOptions made;
  made.threads = 1;
  made.micro_batches = micro_batches;
  made.optimizer.learning_rate = 0.01;
  made.clip_norm = 0.5;
  return made;
}

struct Outcome {
  std::string weights;
  std::string gradients;
  std::string outputs;
  double loss = 0;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << "weights " << outcome.weights << " gradients " << outcome.gradients << " outputs "
             << outcome.outputs << " loss " << outcome.loss;
}

/// Trains a few steps, each batch in 1 to 4 micro-batches, and digests everything that can be seen.
Outcome train(const HarmonicGraph& graph, std::size_t parts, std::uint64_t seed,
              PipelineOrder order = PipelineOrder::Sequential, int recompute = 1) {
  RuntimeOptions each = options(1 + static_cast<int>(seed % 4));
  each.recompute = recompute;
  const auto pieces = partition_graph(graph, parts);
  StageRow row(pieces, std::vector<RuntimeOptions>(pieces.size(), each));
  if (order != PipelineOrder::Sequential) {
    row.set_runner(make_pipeline_runner(row, {order}, each.threads));
  }
  Outcome outcome;
  NamedTensors outputs;
  for (std::uint64_t step = 0; step < 3; ++step) {
    outputs.clear();
    outcome.loss += row.train(random_inputs(graph, 7, 100 * seed + step), &outputs).taps.loss_sum;
  }
  outcome.weights = weights_digest(row.parameters());
  const NamedTensors inferred = row.infer(random_inputs(graph, 5, seed));
  for (const auto& [name, value] : inferred) outputs["inferred." + name] = value;
  outcome.outputs = weights_digest(outputs);

  // Gradients of one more batch, before any update.
  NamedTensors sent;
  const MicroBatch micro_batch{9, 0, 0, 6};
  const NamedTensors batch = random_inputs(graph, 6, seed + 7);
  TapReport taps;
  for (Stage& stage : row.stages()) {
    NamedTensors inputs = sent;
    inputs.insert(batch.begin(), batch.end());
    sent.merge(stage->forward(micro_batch, inputs, taps));
  }
  NamedTensors back, gradients;
  for (auto stage = row.stages().rbegin(); stage != row.stages().rend(); ++stage) {
    back.merge((*stage)->backward(micro_batch, back));
    gradients.merge((*stage)->gradients());
  }
  outcome.gradients = weights_digest(gradients);
  return outcome;
}

TEST(SameAnswer, RandomGraphsInAnyNumberOfParts) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const HarmonicGraph graph = random_graph(seed);
    const Outcome whole = train(graph, 1, seed);
    for (std::size_t parts = 2; parts <= graph.layers().size(); ++parts) {
      ASSERT_EQ(train(graph, parts, seed), whole) << "seed " << seed << ", " << parts << " parts";
    }
  }
}

constexpr auto kOverlapping = {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe};

TEST(SameAnswer, RandomGraphsInAPipeline) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const HarmonicGraph graph = random_graph(seed);
    const Outcome whole = train(graph, 1, seed);
    for (std::size_t parts = 2; parts <= std::min<std::size_t>(6, graph.layers().size()); ++parts) {
      for (const PipelineOrder order : kOverlapping) {
        ASSERT_EQ(train(graph, parts, seed, order), whole)
            << "seed " << seed << ", " << parts << " parts, " << pipeline_order_name(order);
      }
    }
  }
}

TEST(SameAnswer, RealNetworks) {
  for (const char* name : {"digits-mlp", "lenet-digits", "transformer-small"}) {
    const HarmonicGraph graph = zoo_graph(name);
    const Outcome whole = train(graph, 1, 2);
    for (std::size_t parts = 2; parts <= std::min<std::size_t>(6, graph.layers().size()); ++parts) {
      EXPECT_EQ(train(graph, parts, 2), whole) << name << " in " << parts << " parts";
      for (const PipelineOrder order : kOverlapping) {
        EXPECT_EQ(train(graph, parts, 2, order), whole)
            << name << " in " << parts << " parts, " << pipeline_order_name(order);
      }
    }
  }
}

// Stages that keep what enters a stretch of layers and compute the rest again.
TEST(SameAnswer, RandomGraphsComputedAgain) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const HarmonicGraph graph = random_graph(seed);
    const Outcome whole = train(graph, 1, seed);
    for (const int stretches : {0, 2, 3, 100}) {
      ASSERT_EQ(train(graph, 1, seed, PipelineOrder::Sequential, stretches), whole)
          << "seed " << seed << ", " << stretches << " stretches";
    }
    if (graph.layers().size() < 2) continue;
    for (const PipelineOrder order : kOverlapping) {
      ASSERT_EQ(train(graph, 2, seed, order, 2), whole)
          << "seed " << seed << ", two parts, " << pipeline_order_name(order);
    }
  }
}

TEST(SameAnswer, RealNetworksComputedAgain) {
  for (const char* name : {"digits-mlp", "lenet-digits", "transformer-small"}) {
    const HarmonicGraph graph = zoo_graph(name);
    for (const int stretches : {0, 3}) {
      EXPECT_EQ(train(graph, 1, 2, PipelineOrder::Sequential, stretches), train(graph, 1, 2))
          << name << " in " << stretches << " stretches";
    }
  }
}

TEST(SameAnswer, AnotherSeedIsAnotherAnswer) {
  const HarmonicGraph graph = random_graph(1);
  EXPECT_FALSE(train(graph, 1, 1) == train(graph, 1, 2));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
