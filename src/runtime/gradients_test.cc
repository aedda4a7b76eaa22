// Numerical gradient checks: every layer, activation and loss, by parameters and by inputs, in
// float64.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include <harmonics/base/random.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/stage.h>

#include "layer_cases_testing.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::int64_t kBatch = 3;

Tensor random_doubles(Shape shape, std::uint64_t seed) {
  Tensor out = Tensor::empty(std::move(shape), DType::kFloat64);
  Random random(seed, "gradients");
  for (double& value : out.mutable_values<double>()) value = random.normal();
  return out;
}

Tensor random_ids(Shape shape, std::int64_t bound, std::uint64_t seed) {
  Tensor out = Tensor::empty(std::move(shape), DType::kInt64);
  Random random(seed, "ids");
  for (auto& value : out.mutable_values<std::int64_t>()) value = random.below(bound);
  return out;
}

Shape batched(Shape shape) {
  shape.insert(shape.begin(), kBatch);
  return shape;
}

/// Compares what backward() says with central differences, for all parameters and for the inputs
/// that are boundaries with a gradient slot.
class GradientCheck {
 public:
  GradientCheck(const HarmonicGraph& graph, NamedTensors inputs)
      : stage_(graph, {}), inputs_(std::move(inputs)) {
    // Copies, so that differences never see a half-changed stage.
    for (const auto& [name, value] : stage_->parameters()) weights_[name] = copy(value);
  }

  void run() {
    TapReport report;
    static_cast<void>(stage_->forward(kMicroBatch, inputs_, report));
    const NamedTensors input_gradients = stage_->backward(kMicroBatch, {});
    const NamedTensors gradients = stage_->gradients();
    std::int64_t checked = 0;
    for (const auto& [name, gradient] : gradients) {
      checked += compare(name, gradient.values<double>(), weights_.at(name));
    }
    for (const auto& [name, gradient] : input_gradients) {
      checked += compare(name, gradient.values<double>(), inputs_.at(name));
    }
    EXPECT_GT(checked, 0) << "nothing was compared";
  }

 private:
  static constexpr MicroBatch kMicroBatch{7, 0, 0, kBatch};

  static Tensor copy(const Tensor& from) {
    Tensor to = Tensor::empty(from.shape(), from.dtype());
    std::copy(from.bytes().begin(), from.bytes().end(), to.mutable_bytes().begin());
    return to;
  }

  double loss() {
    stage_->set_parameters(weights_);
    TapReport report;
    static_cast<void>(stage_->forward(kMicroBatch, inputs_, report));
    return report.loss_sum / kBatch;
  }

  std::int64_t compare(const std::string& name, std::span<const double> analytic, Tensor& value) {
    constexpr double kStep = 1e-6;
    const std::span<double> numbers = value.mutable_values<double>();
    // Every element of small tensors, a sample of large ones.
    const std::size_t stride = std::max<std::size_t>(1, numbers.size() / 40);
    for (std::size_t i = 0; i < numbers.size(); i += stride) {
      const double kept = numbers[i];
      numbers[i] = kept + kStep;
      const double above = loss();
      numbers[i] = kept - kStep;
      const double below = loss();
      numbers[i] = kept;
      const double numeric = (above - below) / (2 * kStep);
      EXPECT_NEAR(analytic[i], numeric, 1e-5 * (1 + std::abs(numeric))) << name << " element " << i;
    }
    return static_cast<std::int64_t>(numbers.size() / stride);
  }

  Stage stage_;
  NamedTensors inputs_;
  NamedTensors weights_;
};

/// inputs -> the layer -> mse against a random target.
void check_layer(const LayerCase& item) {
  SCOPED_TRACE(item.label);
  GraphBuilder probe("probe");
  std::vector<std::string> names;
  NamedTensors inputs;
  GraphBuilder builder("check");
  for (std::size_t i = 0; i < item.inputs.size(); ++i) {
    const std::int64_t below = item.ids_below(i);
    const DType dtype = below > 0 ? DType::kInt64 : DType::kFloat64;
    const std::string name = "x" + std::to_string(i) + "@1";
    builder.add(ProducerNode{name, item.inputs[i], dtype, below > 0 ? 0U : 1U});
    probe.add(ProducerNode{name, item.inputs[i], dtype});
    names.push_back(name);
    inputs[name] = below > 0 ? random_ids(batched(item.inputs[i]), below, 10 + i)
                             : random_doubles(batched(item.inputs[i]), 10 + i);
    if (item.positive) {
      for (double& value : inputs[name].mutable_values<double>()) value = std::abs(value) + 0.5;
    }
  }
  const LayerNode layer{"layer", item.type, item.attributes, {}, names, item.activation};
  const Shape out = probe.add(layer).build().spec("layer").shape;
  builder.add(layer).producer("target", out, DType::kFloat64).tap("mse", "layer", "target");
  inputs["target"] = random_doubles(batched(out), 99);
  GradientCheck(builder.build(), inputs).run();
}

TEST(Gradients, EveryLayer) {
  for (const LayerCase& item : layer_cases()) check_layer(item);
}

TEST(Gradients, EveryActivation) {
  for (const std::string& name : activation_type_names()) {
    check_layer({name, "linear", with({{"out", whole(4)}}), {{5}}, name});
  }
}

TEST(Gradients, Embedding) {
  // Its parameters are float32 by definition; a float64 loss on top would not reach them exactly,
  // so the check is exact by hand: each row collects the gradient of its uses.
  GraphBuilder builder("embed");
  builder.producer("ids", Shape{2}, DType::kInt64).producer("target", Shape{2, 3});
  builder.layer("table", "embedding", with({{"rows", whole(5)}, {"width", whole(3)}}), {"ids"});
  Stage stage(builder.tap("mse", "table", "target").build(), {});
  const NamedTensors inputs = {{"ids", Tensor::of<std::int64_t>({1, 2}, {4, 4})},
                               {"target", Tensor::zeros({1, 2, 3})}};
  TapReport report;
  static_cast<void>(stage->forward({0, 0, 0, 1}, inputs, report));
  static_cast<void>(stage->backward({0, 0, 0, 1}, {}));
  const NamedTensors weights = stage->parameters(), gradients = stage->gradients();
  const auto weight = weights.at("table.weight").values<float>();
  const auto gradient = gradients.at("table.weight").values<float>();
  for (int i = 0; i < 12; ++i) EXPECT_EQ(gradient[i], 0.0f) << i;
  for (int i = 12; i < 15; ++i) EXPECT_NEAR(gradient[i], 2 * 2 * weight[i] / 6, 1e-6) << i;
}

TEST(Gradients, EveryLoss) {
  for (const std::string& loss : loss_type_names()) {
    SCOPED_TRACE(loss);
    if (loss == "next_token") continue;  // its targets are ids: below
    GraphBuilder builder("loss");
    builder.add(ProducerNode{"x@1", Shape{4}, DType::kFloat64, 1});
    builder.layer("p", "linear", with({{"out", whole(4)}}), {"x@1"},
                  loss == "bce" ? "sigmoid" : "");
    builder.producer("target", Shape{4}, DType::kFloat64).tap(loss, "p", "target", 0.7);
    Tensor target = random_doubles({kBatch, 4}, 5);
    for (double& value : target.mutable_values<double>()) value = 1 / (1 + std::exp(-value));
    GradientCheck(builder.build(), {{"x@1", random_doubles({kBatch, 4}, 6)}, {"target", target}})
        .run();
  }
}

TEST(Gradients, CrossEntropyOfClassIds) {
  for (const Shape& ids : {Shape{3}, Shape{3, 1}}) {
    GraphBuilder builder("ids");
    builder.add(ProducerNode{"x@1", Shape{3, 4}, DType::kFloat64, 1});
    builder.layer("p", "linear", with({{"out", whole(5)}}), {"x@1"});
    builder.producer("target", ids, DType::kInt64).tap("cross_entropy", "p", "target");
    GradientCheck(builder.build(), {{"x@1", random_doubles({kBatch, 3, 4}, 6)},
                                    {"target", random_ids(batched(ids), 5, 7)}})
        .run();
  }
}

TEST(Gradients, NextToken) {
  GraphBuilder builder("next");
  builder.add(ProducerNode{"x@1", Shape{4, 3}, DType::kFloat64, 1});
  builder.layer("p", "linear", with({{"out", whole(5)}}), {"x@1"});
  builder.producer("target", Shape{4}, DType::kInt64).tap("next_token", "p", "target");
  Tensor ids = random_ids({kBatch, 4}, 5, 7);
  ids.mutable_values<std::int64_t>()[2] = -1;  // of the first sample, left out
  for (std::size_t i = 5; i < 8; ++i) ids.mutable_values<std::int64_t>()[i] = -100;
  GradientCheck(builder.build(),
                {{"x@1", random_doubles({kBatch, 4, 3}, 6)}, {"target", std::move(ids)}})
      .run();
}

TEST(Gradients, ThroughFanOutAndTwoTaps) {
  GraphBuilder builder("fan");
  builder.add(ProducerNode{"x@1", Shape{4}, DType::kFloat64, 3});
  builder.layer("a", "linear", with({{"out", whole(4)}}), {"x@1"}, "tanh");
  builder.layer("b", "mul", {}, {"a", "a"}).layer("c", "add", {}, {"a", "b", "x@1"});
  builder.layer("d", "add", {}, {"c", "x@1"});
  builder.producer("target", Shape{4}, DType::kFloat64);
  builder.tap("mse", "d", "target").tap("mse", "a", "target", 0.5);
  const HarmonicGraph graph = builder.build();
  Stage stage(graph, {});
  const NamedTensors inputs = {{"x@1", random_doubles({kBatch, 4}, 1)},
                               {"target", random_doubles({kBatch, 4}, 2)}};
  TapReport report;
  static_cast<void>(stage->forward({0, 0, 0, kBatch}, inputs, report));
  const NamedTensors gradients = stage->backward({0, 0, 0, kBatch}, {});
  EXPECT_EQ(gradients.at("x@1").shape(), (Shape{3, kBatch, 4})) << "one gradient per use";
}

// A comparison bears no gradient; the numbers that it lets through do.
TEST(Gradients, BehindEveryComparison) {
  for (const std::string op :
       {"equal", "not_equal", "less", "less_or_equal", "greater", "greater_or_equal"}) {
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(op);
      GraphBuilder builder("choice");
      builder.add(ProducerNode{"x@1", Shape{2, 3}, DType::kFloat64, 1});
      builder.producer("target", Shape{2, 3}, DType::kFloat64);
      builder.layer("x", "identity", {}, {"x@1"});
      builder.layer("other", "constant",
                    with({{"shape", Shape{3}},
                          {"dtype", std::string("float64")},
                          {"start", 0.1},
                          {"learned", whole(1)}}),
                    {"x"});
      Attributes attributes = with({{"op", op}});
      std::vector<std::string> inputs = {"x"};
      if (constant) {
        attributes["constant"] = Shape{3};
        attributes["start"] = 0.25;
      } else {
        inputs.push_back("other");
      }
      builder.layer("test", "compare", attributes, inputs);
      builder.layer("chosen", "where", {}, {"test", "x", "other"});
      builder.layer("number", "cast", with({{"to", std::string("float64")}}), {"test"});
      builder.layer("both", "add", {}, {"chosen", "number"}).tap("mse", "both", "target");
      GradientCheck(builder.build(), {{"x@1", random_doubles({kBatch, 2, 3}, 1)},
                                      {"target", random_doubles({kBatch, 2, 3}, 3)}})
          .run();
    }
  }
}

TEST(Gradients, CoverEveryRegisteredLayer) {
  std::set<std::string> covered = {"embedding", "compare", "cast", "constant", "weight"};
  for (const LayerCase& item : layer_cases()) covered.insert(item.type);
  for (const std::string& name : layer_type_names()) EXPECT_TRUE(covered.contains(name)) << name;
}

}  // namespace
}  // namespace harmonics::inline in_runtime
