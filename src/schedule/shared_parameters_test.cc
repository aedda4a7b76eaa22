// Frozen and tied parameters as stages compute and learn them.
#include <gtest/gtest.h>

#include <harmonics/base/random.h>
#include <harmonics/graph/blob.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/stage_row.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "parts/pipeline_runner.h"

namespace harmonics::inline in_schedule {
namespace {

/// A small language model; `embed` and `head` say what else these layers are told.
HarmonicGraph model(const std::string& embed, const std::string& head) {
  return parse_harp(format(R"(
    producer ids {{6}} int64;
    producer next {{6}} int64;
    consumer out;
    layer embed embedding(rows=10, width=4{});
    layer norm layer_norm;
    layer mix linear(4);
    layer head linear(10, bias=false{});
    cycle {{
      ids -> embed -> norm -(tanh)-> mix -> head -> out;
      head <-(cross_entropy)- next;
    }})",
                           embed, head));
}

HarmonicGraph tied() { return model("", ", tie=embed.weight"); }

NamedTensors batch(std::uint64_t seed) {
  NamedTensors made;
  for (const char* name : {"ids", "next"}) {
    Tensor values = Tensor::empty({5, 6}, DType::kInt64);
    Random random(seed, name);
    for (auto& value : values.mutable_values<std::int64_t>()) value = random.below(10);
    made.emplace(name, std::move(values));
  }
  return made;
}

RuntimeOptions adam() {
  RuntimeOptions options;
  options.threads = 1;
  options.micro_batches = 2;
  options.optimizer.learning_rate = 0.01;
  return options;
}

StageRow row_of(const HarmonicGraph& graph, const std::vector<std::size_t>& cut = {0}) {
  return {cut_graph(graph, cut), std::vector(cut.size(), adam())};
}

std::string digest_of(const Tensor& value) { return weights_digest({{"value", value}}); }

/// The gradients of one micro-batch.
NamedTensors gradients_of(Stage& stage) {
  TapReport report;
  (void)stage->forward({0, 0, 0, 5}, batch(3), report);
  (void)stage->backward({0, 0, 0, 5}, {});
  return stage->gradients();
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  Tensor sum = Tensor::empty(a.shape());
  for (std::size_t i = 0; i < a.values<float>().size(); ++i) {
    sum.mutable_values<float>()[i] = a.values<float>()[i] + b.values<float>()[i];
  }
  return sum;
}

TEST(TiedParameters, AreOneTensorThatIsSavedOnce) {
  StageRow row = row_of(tied());
  EXPECT_FALSE(row.parameters().contains("head.weight"));
  (void)row.train(batch(1));
  EXPECT_EQ(row.parameters().size(), 5U);
  EXPECT_FALSE(row.optimizer_state().contains("head.weight.m"));
  const TemporaryFolder folder;
  (void)save_checkpoint(folder.path() / "c.safetensors", row, {});
  StageRow other = row_of(tied());
  (void)load_checkpoint(folder.path() / "c.safetensors", other);
  (void)row.train(batch(2));
  (void)other.train(batch(2));
  EXPECT_EQ(weights_digest(row.parameters()), weights_digest(other.parameters()));
}

// With equal weights, the untied twin computes the same; the tied gradient is the sum of its two.
TEST(TiedParameters, LearnFromTheSumOfTheirUses) {
  Stage stage(tied(), adam());
  Stage twin(model("", ""), adam());
  NamedTensors weights = stage->parameters();
  weights.emplace("head.weight", weights.at("embed.weight"));
  twin->set_parameters(weights);
  EXPECT_EQ(weights_digest(stage->infer(batch(1))), weights_digest(twin->infer(batch(1))));
  const NamedTensors shared = gradients_of(stage);
  const NamedTensors apart = gradients_of(twin);
  EXPECT_FALSE(shared.contains("head.weight"));
  EXPECT_EQ(digest_of(shared.at("embed.weight")),
            digest_of(sum_of(apart.at("embed.weight"), apart.at("head.weight"))));
  EXPECT_EQ(digest_of(shared.at("mix.weight")), digest_of(apart.at("mix.weight")));
}

TEST(TiedParameters, ACutBetweenThemComputesTheSame) {
  StageRow whole = row_of(tied());
  (void)whole.train(batch(1));
  StageRow cut = row_of(tied(), {0, 1, 3});
  EXPECT_EQ(weights_digest(cut.parameters()), weights_digest(row_of(tied()).parameters()));
  for (Stage& stage : cut.stages()) stage->set_parameters(whole.parameters());
  EXPECT_EQ(weights_digest(cut.infer(batch(2))), weights_digest(whole.infer(batch(2))));
}

/// Trains, computes in between and trains again; all numbers and weights must be equal.
void expect_same_learning(StageRow& whole, StageRow& cut, const std::string& what) {
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    EXPECT_EQ(cut.train(batch(seed)).taps.loss_sum, whole.train(batch(seed)).taps.loss_sum) << what;
    BatchReport here, there;
    (void)cut.evaluate(batch(seed + 10), here);
    (void)whole.evaluate(batch(seed + 10), there);
    EXPECT_EQ(here.taps.loss_sum, there.taps.loss_sum) << what;
  }
  EXPECT_EQ(weights_digest(cut.parameters()), weights_digest(whole.parameters())) << what;
  EXPECT_EQ(weights_digest(cut.optimizer_state()), weights_digest(whole.optimizer_state())) << what;
}

TEST(TiedParameters, ACutBetweenThemLearnsTheSame) {
  for (const std::vector<std::size_t>& cut :
       {std::vector<std::size_t>{0, 2}, std::vector<std::size_t>{0, 1, 3}}) {
    // A frozen owner takes no gradient: both parts hold the tensor.
    for (const HarmonicGraph& graph : {tied(), model(", trainable=false", ", tie=embed.weight")}) {
      StageRow whole = row_of(graph);
      StageRow parts = row_of(graph, cut);
      expect_same_learning(whole, parts, to_harp(parts.stages().back()->graph()));
    }
  }
  StageRow whole = row_of(tied());
  StageRow parts = row_of(tied(), {0, 1, 2, 3});
  parts.set_runner(make_pipeline_runner(parts, {PipelineOrder::OneForwardOneBackward}, 1));
  expect_same_learning(whole, parts, "threads");
}

TEST(TiedParameters, SeveralUsesInSeveralPartsAreAddedInGraphOrder) {
  const HarmonicGraph graph = parse_harp(R"(
    producer ids {6} int64; producer next {6} int64; consumer out;
    layer embed embedding(rows=4, width=4); layer a linear(4, tie=embed.weight);
    layer b linear(4, bias=false, tie=embed.weight); layer c linear(4, tie=embed.weight);
    layer aside linear(4, tie=embed.weight); layer d linear(4, tie=embed.weight);
    cycle { ids -> embed -(tanh)-> a -(tanh)-> b -(tanh)-> c -> d; b -> aside -> out;
            d <-(next_token)- next; })");
  const auto small = [&](std::uint64_t seed) {
    NamedTensors made = batch(seed);
    for (auto& [name, values] : made) {
      for (auto& value : values.mutable_values<std::int64_t>()) value %= 4;
    }
    return made;
  };
  for (const std::vector<std::size_t>& places :
       {std::vector<std::size_t>{0, 2}, std::vector<std::size_t>{0, 1, 3},
        std::vector<std::size_t>{0, 1, 2, 3, 4, 5}}) {
    StageRow whole = row_of(graph), cut = row_of(graph, places);
    for (std::uint64_t seed = 1; seed < 4; ++seed) {
      (void)whole.train(small(seed));
      (void)cut.train(small(seed));
    }
    EXPECT_EQ(weights_digest(cut.parameters()), weights_digest(whole.parameters()));
    EXPECT_EQ(weights_digest(cut.infer(small(9))), weights_digest(whole.infer(small(9))));
    for (const Stage& stage : cut.stages()) {
      EXPECT_EQ(parse_harp(to_harp(stage->graph())), stage->graph());
      EXPECT_EQ(decode_graph(encode_graph(stage->graph())), stage->graph());
    }
  }
}

TEST(TiedParameters, ACheckpointGoesOnInAnotherCut) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "c.safetensors";
  StageRow cut = row_of(tied(), {0, 2});
  (void)cut.train(batch(1));
  (void)save_checkpoint(path, cut, {});
  StageRow whole = row_of(tied()), other = row_of(tied(), {0, 1, 3});
  (void)load_checkpoint(path, whole);
  (void)load_checkpoint(path, other);
  for (StageRow* row : {&cut, &whole, &other}) (void)row->train(batch(2));
  EXPECT_EQ(weights_digest(cut.parameters()), weights_digest(whole.parameters()));
  EXPECT_EQ(weights_digest(other.parameters()), weights_digest(whole.parameters()));
  EXPECT_EQ(weights_digest(other.infer(batch(3))), weights_digest(whole.infer(batch(3))));
}

// The earliest part that uses it keeps the tensor, under its owner's name.
TEST(TiedParameters, AnOwnerInALaterPartLearnsTheSame) {
  const HarmonicGraph graph = model(", tie=head.weight", "");
  for (const std::vector<std::size_t>& cut :
       {std::vector<std::size_t>{0, 2}, std::vector<std::size_t>{0, 1, 3},
        std::vector<std::size_t>{0, 1, 2, 3}}) {
    StageRow whole = row_of(graph), parts = row_of(graph, cut);
    EXPECT_EQ(weights_digest(parts.parameters()), weights_digest(whole.parameters()));
    EXPECT_EQ(weights_digest(parts.infer(batch(1))), weights_digest(whole.infer(batch(1))));
    EXPECT_TRUE(parts.stages().front()->parameters().contains("head.weight"));
    EXPECT_FALSE(parts.stages().back()->parameters().contains("head.weight"));
    expect_same_learning(whole, parts, to_harp(parts.stages().back()->graph()));
  }
  // A frozen owner: every part holds a copy.
  const HarmonicGraph frozen = model(", tie=head.weight", ", trainable=false");
  StageRow whole = row_of(frozen), parts = row_of(frozen, {0, 2});
  expect_same_learning(whole, parts, "frozen");
}

TEST(TiedParameters, AnOwnerInTheMiddleOfItsUsersLearnsTheSame) {
  const HarmonicGraph graph = parse_harp(R"(
    producer ids {6} int64; producer next {6} int64; consumer out;
    layer embed embedding(rows=4, width=4, tie=b.weight); layer a linear(4, tie=b.weight);
    layer b linear(4, bias=false); layer c linear(4, tie=b.weight); layer d linear(4, tie=b.weight);
    cycle { ids -> embed -(tanh)-> a -(tanh)-> b -(tanh)-> c -> d -> out;
            d <-(next_token)- next; })");
  const auto small = [&](std::uint64_t seed) {
    NamedTensors made = batch(seed);
    for (auto& [name, values] : made) {
      for (auto& value : values.mutable_values<std::int64_t>()) value %= 4;
    }
    return made;
  };
  for (const std::vector<std::size_t>& places :
       {std::vector<std::size_t>{0, 1}, std::vector<std::size_t>{0, 2},
        std::vector<std::size_t>{0, 3}, std::vector<std::size_t>{0, 2, 4},
        std::vector<std::size_t>{0, 1, 2, 3, 4}}) {
    StageRow whole = row_of(graph), cut = row_of(graph, places);
    for (std::uint64_t seed = 1; seed < 4; ++seed) {
      (void)whole.train(small(seed));
      (void)cut.train(small(seed));
    }
    EXPECT_EQ(weights_digest(cut.parameters()), weights_digest(whole.parameters()));
    EXPECT_EQ(weights_digest(cut.optimizer_state()), weights_digest(whole.optimizer_state()));
    EXPECT_EQ(weights_digest(cut.infer(small(9))), weights_digest(whole.infer(small(9))));
    for (const Stage& stage : cut.stages()) {
      EXPECT_EQ(parse_harp(to_harp(stage->graph())), stage->graph());
      EXPECT_EQ(decode_graph(encode_graph(stage->graph())), stage->graph());
    }
  }
}

TEST(TiedParameters, ACheckpointOfALaterOwnerGoesOnInAnotherCut) {
  const HarmonicGraph graph = model(", tie=head.weight", "");
  const TemporaryFolder folder;
  const auto path = folder.path() / "c.safetensors";
  StageRow cut = row_of(graph, {0, 2});
  (void)cut.train(batch(1));
  (void)save_checkpoint(path, cut, {});
  StageRow whole = row_of(graph), other = row_of(graph, {0, 1, 3});
  (void)load_checkpoint(path, whole);
  (void)load_checkpoint(path, other);
  for (StageRow* row : {&cut, &whole, &other}) (void)row->train(batch(2));
  EXPECT_EQ(weights_digest(cut.parameters()), weights_digest(whole.parameters()));
  EXPECT_EQ(weights_digest(other.parameters()), weights_digest(whole.parameters()));
}

TEST(TiedParameters, ACutBesideThemLearnsTheSame) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {4}; producer y {4}; consumer out;
    layer first linear(4); layer second linear(4, tie=first.weight);
    layer third linear(4, tie=first.weight); layer last linear(4);
    cycle { x -(tanh)-> first -(tanh)-> second -(tanh)-> third -> last -> out;
            last <-(mse)- y; })");
  NamedTensors data;
  for (const char* name : {"x", "y"}) {
    Tensor values = Tensor::empty({6, 4});
    Random random(1, name);
    for (float& value : values.mutable_values<float>()) value = random.normal();
    data.emplace(name, std::move(values));
  }
  StageRow whole = row_of(graph);
  StageRow cut = row_of(graph, {0, 3});
  for (int i = 0; i < 3; ++i) {
    (void)whole.train(data);
    (void)cut.train(data);
  }
  EXPECT_EQ(weights_digest(cut.parameters()), weights_digest(whole.parameters()));
}

TEST(FrozenParameters, StayAsTheyAre) {
  StageRow row = row_of(model(", trainable=false", ""));
  const std::string before = digest_of(row.parameters().at("embed.weight"));
  const std::string learns = digest_of(row.parameters().at("head.weight"));
  (void)row.train(batch(1));
  EXPECT_EQ(digest_of(row.parameters().at("embed.weight")), before);
  EXPECT_NE(digest_of(row.parameters().at("head.weight")), learns);
  for (const auto& [name, slot] : row.optimizer_state()) {
    EXPECT_FALSE(name.starts_with("embed.")) << name;
  }
  EXPECT_FALSE(gradients_of(row.stages().front()).contains("embed.weight"));
}

// Gradients pass through a frozen layer; its running statistics stay.
TEST(FrozenParameters, LetGradientsThroughAndKeepTheirStatistics) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {4}; producer y {4};
    layer first linear(4); layer norm batch_norm(trainable=false); layer last linear(4);
    cycle { x -> first -> norm -> last; last <-(mse)- y; })");
  StageRow whole = row_of(graph);
  StageRow cut = row_of(graph, {0, 1, 2});
  NamedTensors data;
  for (const char* name : {"x", "y"}) {
    Tensor values = Tensor::empty({6, 4});
    Random random(1, name);
    for (float& value : values.mutable_values<float>()) value = random.normal();
    data.emplace(name, std::move(values));
  }
  const NamedTensors before = whole.parameters();
  const std::string mean = digest_of(before.at("norm.running_mean"));
  const std::string first = digest_of(before.at("first.weight"));
  (void)whole.train(data);
  (void)cut.train(data);
  EXPECT_EQ(digest_of(whole.parameters().at("norm.running_mean")), mean);
  EXPECT_NE(digest_of(whole.parameters().at("first.weight")), first);
  EXPECT_EQ(weights_digest(cut.parameters()), weights_digest(whole.parameters()));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
