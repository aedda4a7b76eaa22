// The example of CONTRIBUTING.md, "Add a layer", compiled and run. docs_test.py checks that the
// page shows this text.
#include <gtest/gtest.h>
#include <harmonics/harmonics.h>
#include <harmonics/runtime/torch_layer.h>

namespace harmonics {
namespace {

void register_scale() {
  // What a graph needs to know: inputs, output shape, parameters, cost.
  register_layer_type({
      .name = "scale",
      .attributes = {{"start", 1.0}},
      .min_inputs = 1,
      .max_inputs = 1,
      .infer =
          [](const LayerQuery& query) {
            LayerShape shape;
            shape.output = query.inputs[0];
            shape.parameters = {{"factor", {1}, Init::kConstant, query.number("start")}};
            shape.flops = static_cast<double>(element_count(shape.output.shape));
            return shape;
          },
  });
  // How it is computed: libtorch works out the gradient.
  register_torch_layer("scale", [](const LayerQuery&) {
    return [](const LayerCall& call) { return call.inputs[0] * call.parameters[0]; };
  });
}

TEST(Contributing, ALayerOfOnesOwnLearns) {
  register_scale();
  const HarmonicGraph graph = parse_harp(R"(
harmonic triple {
  producer x {1};
  producer y {1};
  layer factor scale(start=2.0);
  cycle { x -> factor; factor <-(mse)- y; }
})");
  RuntimeOptions options;
  options.optimizer.learning_rate = 0.05;
  CycleRuntime runtime(graph, options);
  const Tensor x = Tensor::of<float>({4, 1}, {-1, 0.5, 1, 2});
  const Tensor y = Tensor::of<float>({4, 1}, {-3, 1.5, 3, 6});
  const auto batches = [](const Tensor& rows) {
    return std::make_shared<BatchProducer>(std::make_shared<MemoryProducer>(rows), 4);
  };
  runtime.bindProducer("x", batches(x));
  runtime.bindProducer("y", batches(y));
  runtime.fit(200);
  EXPECT_NEAR(runtime.parameters().at("factor.factor").values<float>()[0], 3.0, 0.01);
}

}  // namespace
}  // namespace harmonics
