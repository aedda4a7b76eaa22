// That the pieces of learning are right: optimisers against torch.optim, one's own layers, and a
// transformer that overfits.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <harmonics/base/random.h>
#include <harmonics/graph/graph.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/torch_layer.h>
#include <harmonics/tensor/torch.h>

#include "plain_row_testing.h"

namespace harmonics::inline in_runtime {
namespace {

Attribute whole(std::int64_t value) { return value; }

HarmonicGraph line(DType dtype = DType::kFloat64) {
  GraphBuilder builder("line");
  builder.producer("x", Shape{3}, dtype).producer("y", Shape{2}, dtype);
  builder.layer("fit", "linear", {{"out", whole(2)}}, {"x"});
  return builder.tap("mse", "fit", "y").build();
}

/// Trains the same linear map here and with torch's own optimiser; the weights must stay together.
template <typename TorchOptimizer, typename TorchOptions>
void compare_with_torch(const OptimizerOptions& ours, TorchOptions theirs) {
  RuntimeOptions options;
  options.optimizer = ours;
  PlainRow row({line()}, {options});
  const NamedTensors start = row.parameters();
  const at::Tensor weight = to_torch(start.at("fit.weight")).clone().set_requires_grad(true);
  const at::Tensor bias = to_torch(start.at("fit.bias")).clone().set_requires_grad(true);
  TorchOptimizer optimizer(std::vector<at::Tensor>{weight, bias}, theirs);
  torch::manual_seed(1);
  for (int step = 0; step < 50; ++step) {
    const at::Tensor x = torch::randn({5, 3}, at::kDouble), y = torch::randn({5, 2}, at::kDouble);
    row.train({{"x", from_torch(x)}, {"y", from_torch(y)}});
    optimizer.zero_grad();
    torch::mse_loss(at::linear(x, weight, bias), y).backward();
    optimizer.step();
  }
  const NamedTensors after = row.parameters();
  EXPECT_TRUE(at::allclose(to_torch(after.at("fit.weight")), weight, 1e-10, 1e-12));
  EXPECT_TRUE(at::allclose(to_torch(after.at("fit.bias")), bias, 1e-10, 1e-12));
}

TEST(Optimizers, SgdIsTorchs) {
  compare_with_torch<torch::optim::SGD>({OptimizerKind::kSgd, 0.05},
                                        torch::optim::SGDOptions(0.05));
  compare_with_torch<torch::optim::SGD>(
      {OptimizerKind::kSgd, 0.05, 0.9, 0.01},
      torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
}

TEST(Optimizers, AdamIsTorchs) {
  compare_with_torch<torch::optim::Adam>({OptimizerKind::kAdam, 0.02, 0, 0.01},
                                         torch::optim::AdamOptions(0.02).weight_decay(0.01));
}

TEST(Optimizers, AdamWIsTorchs) {
  compare_with_torch<torch::optim::AdamW>({OptimizerKind::kAdamW, 0.02, 0, 0.1},
                                          torch::optim::AdamWOptions(0.02).weight_decay(0.1));
}

TEST(Optimizers, DecayOfWeightsLeavesBiasesAndNormsAlone) {
  GraphBuilder builder("line");
  builder.producer("x", Shape{3}).producer("y", Shape{2});
  builder.layer("norm", "layer_norm", {}, {"x"})
      .layer("fit", "linear", {{"out", whole(2)}}, {"norm"});
  const HarmonicGraph graph = builder.tap("mse", "fit", "y").build();
  const NamedTensors batch = {{"x", Tensor::of<float>({1, 3}, {1, 2, 4})},
                              {"y", Tensor::of<float>({1, 2}, {1, 1})}};
  const auto after_a_step = [&](double decay, DecayScope scope) {
    RuntimeOptions options;
    options.optimizer = {OptimizerKind::kAdamW, 0.02, 0, decay};
    options.optimizer.decay = scope;
    PlainRow row({graph}, {options});
    row.train(batch);
    return row.parameters();
  };
  const NamedTensors none = after_a_step(0, DecayScope::kAll);
  const NamedTensors all = after_a_step(0.5, DecayScope::kAll);
  const NamedTensors weights = after_a_step(0.5, DecayScope::kWeights);
  for (const auto& [name, value] : weights) {
    const NamedTensors& like = name == "fit.weight" ? all : none;
    EXPECT_EQ(weights_digest({{"", value}}), weights_digest({{"", like.at(name)}})) << name;
  }
  EXPECT_NE(weights_digest(none), weights_digest(weights));
}

TEST(OwnLayers, LayerActivationAndLossTrain) {
  register_layer_type({"scale", {{"start", 2.0, false}}, 1, 1, [](const LayerQuery& q) {
                         return LayerShape{q.inputs[0],
                                           {{"factor", {1}, Init::kConstant, q.number("start")}},
                                           static_cast<double>(element_count(q.inputs[0].shape))};
                       }});
  register_torch_layer("scale", [](const LayerQuery&) {
    return [](const LayerCall& call) { return call.inputs[0] * call.parameters[0]; };
  });
  register_activation_type({"square", {}});
  register_torch_activation("square",
                            [](const at::Tensor& x, std::span<const at::Tensor>) { return x * x; });
  register_loss_type({"absolute", [](const TensorSpec& prediction, const TensorSpec& target) {
                        return prediction.shape == target.shape ? std::string()
                                                                : std::string("shapes differ");
                      }});
  register_torch_loss("absolute", [](const at::Tensor& prediction, const at::Tensor& target) {
    return (prediction - target).abs().flatten(1).mean(1);
  });
  GraphBuilder builder("own");
  builder.producer("x", Shape{1}).producer("y", Shape{1});
  builder.layer("s", "scale", {}, {"x"}, "square").tap("absolute", "s", "y");
  RuntimeOptions options;
  options.optimizer = {OptimizerKind::kAdam, 0.05};
  PlainRow row({builder.build()}, {options});
  const NamedTensors batch = {{"x", Tensor::of<float>({2, 1}, {1, 2})},
                              {"y", Tensor::of<float>({2, 1}, {9, 36})}};
  for (int i = 0; i < 200; ++i) row.train(batch);
  EXPECT_NEAR(row.parameters().at("s.factor").values<float>()[0], 3.0, 0.1) << "(3 x)^2 = y";
}

TEST(OwnLayers, WithoutAnImplementationSaysHowToAddOne) {
  register_layer_type({"unfinished", {}, 1, 1, [](const LayerQuery& q) {
                         return LayerShape{q.inputs[0], {}, 0};
                       }});
  GraphBuilder builder("own");
  builder.producer("x", Shape{1}).layer("l", "unfinished", {}, {"x"}).consumer("out", "l");
  try {
    Stage stage(builder.build(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("register_torch_layer"), std::string::npos);
  }
}

TEST(Transformer, OverfitsAToySequenceTask) {
  // Every token is followed by (token * 3 + 1) mod 11, except that the sequences start at random.
  GraphBuilder builder("toy");
  builder.producer("tokens", Shape{8}, DType::kInt64).producer("next", Shape{8}, DType::kInt64);
  builder.layer("embed", "embedding", {{"rows", whole(11)}, {"width", whole(32)}}, {"tokens"});
  builder.layer("place", "position", {}, {"embed"});
  builder.layer("norm1", "layer_norm", {}, {"place"});
  builder.layer("attend", "attention", {{"heads", whole(4)}, {"causal", whole(1)}}, {"norm1"});
  builder.layer("skip1", "add", {}, {"place", "attend"})
      .layer("norm2", "layer_norm", {}, {"skip1"});
  builder.layer("wide", "linear", {{"out", whole(64)}}, {"norm2"}, "gelu");
  builder.layer("narrow", "linear", {{"out", whole(32)}}, {"wide"});
  builder.layer("skip2", "add", {}, {"skip1", "narrow"});
  builder.layer("logits", "linear", {{"out", whole(11)}}, {"skip2"});
  builder.tap("cross_entropy", "logits", "next");
  Tensor tokens = Tensor::empty({16, 8}, DType::kInt64),
         next = Tensor::empty({16, 8}, DType::kInt64);
  Random random(2, "toy");
  for (int row = 0; row < 16; ++row) {
    std::int64_t token = random.below(11);
    for (int i = 0; i < 8; ++i) {
      tokens.mutable_values<std::int64_t>()[row * 8 + i] = token;
      token = (token * 3 + 1) % 11;
      next.mutable_values<std::int64_t>()[row * 8 + i] = token;
    }
  }
  RuntimeOptions options;
  options.optimizer.learning_rate = 0.01;
  PlainRow row({builder.build()}, {options});
  TapReport report;
  for (int i = 0; i < 100; ++i) report = row.train({{"tokens", tokens}, {"next", next}});
  EXPECT_LT(report.loss_sum / 16, 0.02);
  EXPECT_EQ(report.correct, 16 * 8);
}

TEST(Transformer, CausalAttentionNeverLooksAhead) {
  GraphBuilder builder("causal");
  builder.producer("x", Shape{5, 4});
  builder.layer("a", "attention", {{"heads", whole(2)}, {"causal", whole(1)}}, {"x"});
  Stage stage(builder.consumer("out", "a").build(), {});
  Tensor x = Tensor::empty({1, 5, 4});
  Random random(1, "x");
  for (float& value : x.mutable_values<float>()) value = random.normal();
  const Tensor before = stage->infer({{"x", x}}).at("out");
  Tensor changed = Tensor::of<float>({1, 5, 4}, x.values<float>());
  changed.mutable_values<float>()[4 * 3] += 1;  // position 3
  const Tensor after = stage->infer({{"x", changed}}).at("out");
  for (int i = 0; i < 12; ++i) EXPECT_EQ(before.values<float>()[i], after.values<float>()[i]) << i;
  EXPECT_NE(before.values<float>()[12], after.values<float>()[12]);
}

TEST(Dropout, IsAFunctionOfSeedLayerStepAndSample) {
  GraphBuilder builder("drop");
  builder.producer("x", Shape{1000}).producer("y", Shape{1000});
  builder.layer("d", "dropout", {{"p", 0.25}}, {"x"}).consumer("out", "d").tap("mse", "d", "y");
  const HarmonicGraph graph = builder.build();
  Tensor ones = Tensor::empty({4, 1000});
  std::ranges::fill(ones.mutable_values<float>(), 1.0f);
  const auto outcome = [&](std::uint64_t step, std::int64_t first, std::int64_t rows) {
    Stage stage(graph, {});
    TapReport report;
    const Tensor slice = ones.slice(0, rows);
    const NamedTensors out =
        stage->forward({step, 0, first, 4}, {{"x", slice}, {"y", slice}}, report);
    const auto values = out.at("out").values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const auto whole_batch = outcome(3, 0, 4);
  const auto last_two = outcome(3, 2, 2);
  EXPECT_TRUE(std::equal(last_two.begin(), last_two.end(), whole_batch.begin() + 2000))
      << "a micro-batch draws what its rows draw in the whole batch";
  EXPECT_NE(outcome(4, 0, 4), whole_batch);
  const auto zeros = std::count(whole_batch.begin(), whole_batch.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(zeros) / 4000, 0.25, 0.03);
  EXPECT_NEAR(*std::max_element(whole_batch.begin(), whole_batch.end()), 4.0 / 3, 1e-6);
}

TEST(Zoo, EveryNetworkOfModestSizeTakesAStep) {
  for (const std::string& name : zoo_names()) {
    if (name.starts_with("vit-large")) continue;
    const HarmonicGraph graph = zoo_graph(name);
    const bool large = graph.parameter_count() > 50'000'000;
    PlainRow row({graph}, {RuntimeOptions()});
    NamedTensors batch;
    for (const ProducerNode& node : graph.producers()) {
      Shape shape = *node.shape;
      shape.insert(shape.begin(), 2);
      batch[node.name] = Tensor::zeros(shape, node.dtype);
    }
    if (large) {
      EXPECT_EQ(row.stages().front()->infer(batch).size(), graph.consumers().size()) << name;
    } else {
      EXPECT_GT(row.train(batch).loss_sum, 0) << name;
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_runtime
