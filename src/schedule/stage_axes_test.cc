// Stages over named axes: any length within the ceiling, another one with the next batch.
#include <gtest/gtest.h>

#include <harmonics/base/random.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/stage_row.h>

#include <error_testing.h>

namespace harmonics::inline in_schedule {
namespace {

HarmonicGraph tagger() {
  return parse_harp(R"(
    axis T <= 16;
    producer ids {T} int64;
    producer tags {T+1} int64;
    consumer out;
    layer embed embedding(rows=20, width=8);
    layer start class_token;
    layer mix attention(heads=2, causal=true);
    layer drop dropout(0.1);
    layer norm layer_norm;
    layer head linear(5);
    cycle {
      ids -> embed -> start -> mix -> drop -> norm -> head -> out;
      head <-(cross_entropy)- tags;
    })");
}

NamedTensors batch_of(std::int64_t rows, std::int64_t length, std::uint64_t seed) {
  NamedTensors batch;
  const auto fill = [&](const char* name, std::int64_t columns, std::int64_t below) {
    Tensor made = Tensor::empty({rows, columns}, DType::kInt64);
    Random random(seed, name);
    for (auto& value : made.mutable_values<std::int64_t>()) value = random.below(below);
    batch.emplace(name, std::move(made));
  };
  fill("ids", length, 20);
  fill("tags", length + 1, 5);
  return batch;
}

RuntimeOptions options() {
  RuntimeOptions made;
  made.threads = 1;
  made.micro_batches = 2;
  made.clip_norm = 0.5;
  made.optimizer.learning_rate = 0.01;
  return made;
}

StageRow row_of(const HarmonicGraph& graph, std::size_t parts) {
  return {partition_graph(graph, parts), std::vector(parts, options())};
}

constexpr std::int64_t kLengths[] = {7, 16, 1, 12};

/// What a row computes and learns over batches of several lengths.
std::string told(StageRow& row) {
  NamedTensors outputs;
  std::uint64_t seed = 0;
  for (const std::int64_t length : kLengths) {
    NamedTensors own;
    (void)row.train(batch_of(5, length, ++seed), &own);
    outputs.emplace(format("trained {}", length), own.at("out"));
    outputs.emplace(format("computed {}", length),
                    row.infer(batch_of(3, length, ++seed)).at("out"));
  }
  outputs.merge(row.parameters());
  return weights_digest(outputs);
}

TEST(StageAxes, EveryLengthIsComputedAsByAGraphOfThatLength) {
  Stage stage(tagger(), options());
  for (const std::int64_t length : kLengths) {
    Stage fixed(tagger().with_fixed_axes({{"T", length}}), options());
    const NamedTensors batch = batch_of(4, length, 1);
    const Tensor out = stage->infer(batch).at("out");
    EXPECT_EQ(out.shape(), Shape({4, length + 1, 5}));
    EXPECT_EQ(weights_digest({{"out", out}}), weights_digest(fixed->infer(batch)));
  }
}

TEST(StageAxes, CutGraphsLearnTheSameBits) {
  StageRow whole = row_of(tagger(), 1);
  const std::string expected = told(whole);
  for (const std::size_t parts : {2, 3, 6}) {
    StageRow row = row_of(tagger(), parts);
    EXPECT_EQ(told(row), expected) << parts << " parts";
  }
}

// What value the shapes of a graph stand for is the planner's business alone.
TEST(StageAxes, TheGraphsValueChangesNothing) {
  StageRow whole = row_of(tagger(), 1);
  StageRow other = row_of(tagger().with_axes({{"T", 3}}), 2);
  EXPECT_EQ(told(other), told(whole));
}

TEST(StageAxes, LengthsThatDoNotFitAreErrors) {
  Stage stage(tagger(), options());
  expect_error(ErrorCode::kInvalidArgument,
               "producer 'ids' takes batches of {T}, samples of {17} came: axis T is 1 to 16",
               [&] { (void)stage->infer(batch_of(2, 17, 1)); });
  NamedTensors mixed = batch_of(2, 8, 1);
  mixed["tags"] = batch_of(2, 9, 1)["tags"];
  TapReport report;
  expect_error(ErrorCode::kInvalidArgument, "that is T = 9, but producer 'ids' has T = 8",
               [&] { (void)stage->evaluate(mixed, report); });
}

}  // namespace
}  // namespace harmonics::inline in_schedule
