// Every layer between two cuts: what parts learn equals what the whole learns, bit for bit.
#include <gtest/gtest.h>

#include <cmath>

#include <harmonics/base/format.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/stage_row.h>

#include <layer_cases_testing.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::int64_t kSamples = 4;

Tensor made_up(Shape shape, std::int64_t below, std::uint64_t seed) {
  shape.insert(shape.begin(), kSamples);
  Random random(seed, "parts");
  if (below > 0) {
    Tensor ids = Tensor::empty(std::move(shape), DType::kInt64);
    for (auto& value : ids.mutable_values<std::int64_t>()) value = random.below(below);
    return ids;
  }
  Tensor numbers = Tensor::empty(std::move(shape), DType::kFloat32);
  for (float& value : numbers.mutable_values<float>()) value = random.normal();
  return numbers;
}

/// Norms that learn before and behind the layer, so that gradients cross both cuts.
struct Sandwich {
  HarmonicGraph graph;
  NamedTensors batch;
};

Sandwich sandwich(const LayerCase& item) {
  GraphBuilder builder("sandwich");
  NamedTensors batch;
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < item.inputs.size(); ++i) {
    const std::int64_t below = item.ids_below(i);
    const std::string name = format("x{}", i);
    builder.producer(name, item.inputs[i], below > 0 ? DType::kInt64 : DType::kFloat32);
    batch[name] = made_up(item.inputs[i], below, 10 + i);
    if (item.positive) {
      for (float& value : batch[name].mutable_values<float>()) value = std::abs(value) + 0.5f;
    }
    inputs.push_back(name);
    if (below > 0) continue;
    inputs.back() = "before." + name;
    builder.layer(inputs.back(), "rms_norm", {}, {name});
  }
  builder.add(LayerNode{"layer", item.type, item.attributes, {}, inputs, item.activation});
  builder.layer("behind", "rms_norm", {}, {"layer"});
  const Shape out = builder.build().spec("behind").shape;
  builder.producer("target", out).tap("mse", "behind", "target").consumer("out", "behind");
  batch["target"] = made_up(out, 0, 99);
  return {builder.build(), std::move(batch)};
}

/// Trains the graph whole and in 2 and 3 parts.
void expect_parts_equal(const Sandwich& made) {
  RuntimeOptions options;
  options.micro_batches = 2;
  const StageRow untrained({made.graph}, {options});
  for (const std::size_t count : {std::size_t{2}, std::size_t{3}}) {
    StageRow parts(partition_graph(made.graph, count), std::vector<RuntimeOptions>(count, options));
    StageRow whole({made.graph}, {options});
    for (int step = 0; step < 2; ++step) {
      NamedTensors ours, theirs;
      EXPECT_EQ(parts.train(made.batch, &ours).taps.loss_sum,
                whole.train(made.batch, &theirs).taps.loss_sum);
      EXPECT_EQ(weights_digest(ours), weights_digest(theirs));
    }
    EXPECT_EQ(weights_digest(parts.parameters()), weights_digest(whole.parameters()));
    EXPECT_NE(weights_digest(untrained.parameters()), weights_digest(whole.parameters()))
        << "something was learnt";
  }
}

TEST(LayerParts, LearnWhatTheWholeLearns) {
  for (const LayerCase& item : layer_cases()) {
    SCOPED_TRACE(item.label);
    expect_parts_equal(sandwich(item));
  }
}

// Truths cross a cut as they are, and no gradient comes back for them.
TEST(LayerParts, AComparisonCrossesACut) {
  GraphBuilder builder("truths");
  builder.producer("x", Shape{2, 3}).producer("target", Shape{2, 3});
  builder.layer("before", "rms_norm", {}, {"x"});
  builder.layer("test", "compare", with({{"op", word("less")}, {"constant", Shape{}}}), {"before"});
  builder.layer("chosen", "where", {}, {"test", "x", "before"});
  builder.layer("number", "cast", with({{"to", word("float32")}}), {"test"});
  builder.layer("both", "add", {}, {"chosen", "number"});
  builder.tap("mse", "both", "target").consumer("out", "both");
  expect_parts_equal(
      {builder.build(), {{"x", made_up({2, 3}, 0, 1)}, {"target", made_up({2, 3}, 0, 2)}}});
}

}  // namespace
}  // namespace harmonics::inline in_schedule
