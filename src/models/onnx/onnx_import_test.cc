#include <gtest/gtest.h>

#include <span>

#include <harmonics/base/error.h>
#include <harmonics/graph/harp.h>

#include "onnx_importer.h"
#include "onnx_testing.h"

namespace harmonics::inline in_models {
namespace {

OnnxImport imported(const OnnxParts& parts, const OnnxChoices& choices = {}) {
  const std::string file = onnx_file(onnx_graph(parts));
  const OnnxModel model = read_onnx(onnx_bytes(file), "test.onnx");
  return OnnxImporter(model, "test.onnx", choices).run();
}

std::string refusal(const OnnxParts& parts, const OnnxChoices& choices = {}) {
  try {
    (void)imported(parts, choices);
  } catch (const Error& error) {
    return error.what();
  }
  return "imported";
}

TEST(OnnxImport, AConvolutionTakesItsActivationAlong) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2, 4, 4})};
  parts.initializers = {onnx_tensor("w", {3, 2, 1, 1}, {1, 2, 3, 4, 5, 6})};
  parts.nodes = {onnx_node("Conv", {"x", "w"}, {"c"}), onnx_node("Relu", {"c"}, {"y"})};
  parts.outputs = {onnx_value("y", {0, 3, 4, 4})};
  const OnnxImport result = imported(parts);
  ASSERT_EQ(result.graph.layers().size(), 1U);
  EXPECT_EQ(result.graph.layers()[0].type, "conv2d");
  EXPECT_EQ(result.graph.layers()[0].activation, "relu");
  EXPECT_EQ(result.graph.spec("c").shape, (Shape{3, 4, 4}));
  EXPECT_EQ(result.weights.at("c.weight").reals(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(OnnxImport, AnActivationStandsAloneWhereOthersReadItsInput) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 4})};
  parts.initializers = {onnx_tensor("w", {4, 2}, std::vector<float>(8, 1))};
  parts.nodes = {onnx_node("MatMul", {"x", "w"}, {"m"}), onnx_node("Tanh", {"m"}, {"t"}),
                 onnx_node("Add", {"m", "t"}, {"y"})};
  parts.outputs = {onnx_value("y", {0, 2})};
  const OnnxImport result = imported(parts);
  ASSERT_EQ(result.graph.layers().size(), 3U);
  EXPECT_EQ(result.graph.layers()[0].activation, "");
  EXPECT_EQ(result.graph.layers()[1].type, "identity");
  EXPECT_EQ(result.graph.layers()[1].activation, "tanh");
}

TEST(OnnxImport, AProductWithAConstantIsALinearLayerWithTurnedWeights) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2})};
  parts.initializers = {onnx_tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6})};
  parts.nodes = {onnx_node("MatMul", {"x", "w"}, {"y"})};
  parts.outputs = {onnx_value("y", {0, 3})};
  EXPECT_EQ(imported(parts).weights.at("y.weight").reals(),
            (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(OnnxImport, AParameterKnowsTheInitializerThatItIs) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2})};
  parts.initializers = {onnx_tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6}),
                        onnx_tensor("v", {2, 3}, {1, 2, 3, 4, 5, 6}),
                        onnx_tensor("b", {2}, {1, 2})};
  parts.nodes = {onnx_node("MatMul", {"x", "w"}, {"m"}), onnx_node("Transpose", {"v"}, {"t"}),
                 onnx_node("MatMul", {"m", "t"}, {"n"}), onnx_node("Add", {"b", "b"}, {"c"}),
                 onnx_node("Add", {"n", "c"}, {"o"}),    onnx_node("Add", {"o", "b"}, {"y"})};
  parts.outputs = {onnx_value("y", {0, 2})};
  const OnnxImport result = imported(parts);
  EXPECT_EQ(result.weights.at("m.weight").origin(), (WeightOrigin{"w", true}));
  EXPECT_EQ(result.weights.at("n.weight").origin(), (WeightOrigin{"v", false}));
  EXPECT_EQ(result.weights.at("o.value").origin(), WeightOrigin{});
  EXPECT_EQ(result.weights.at("y.value").origin(), (WeightOrigin{"b", false}));
}

TEST(OnnxImport, ShapesThatAFileComputesAreKnownAtImport) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2, 3})};
  parts.initializers = {onnx_integers("zero", {0}), onnx_integers("rest", {-1})};
  parts.nodes = {onnx_node("Shape", {"x"}, {"s"}), onnx_node("Gather", {"s", "zero"}, {"n"}),
                 onnx_node("Concat", {"n", "rest"}, {"to"}, {onnx_integer("axis", 0)}),
                 onnx_node("Reshape", {"x", "to"}, {"y"})};
  parts.outputs = {onnx_value("y", {0, 6})};
  const OnnxImport result = imported(parts);
  ASSERT_EQ(result.graph.layers().size(), 1U);
  EXPECT_EQ(result.graph.spec("y").shape, (Shape{6}));
}

TEST(OnnxImport, WhatIsNotCoveredIsNamedWithCountAndNode) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2})};
  parts.nodes = {onnx_node("Einsum", {"x"}, {"a"}), onnx_node("Einsum", {"a"}, {"b"}),
                 onnx_node("NonZero", {"b"}, {"y"})};
  parts.outputs = {onnx_value("y", {0, 2})};
  EXPECT_EQ(refusal(parts),
            "test.onnx: not covered: Einsum (2 nodes, the first Einsum 'a'), NonZero (1 nodes, the "
            "first NonZero 'y')");
}

TEST(OnnxImport, WhatMixesSamplesIsRefused) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2})};
  parts.nodes = {onnx_node("Concat", {"x", "x"}, {"y"}, {onnx_integer("axis", 0)})};
  parts.outputs = {onnx_value("y", {0, 2})};
  EXPECT_NE(refusal(parts).find("works across the samples of a batch"), std::string::npos);
}

TEST(OnnxImport, OpenAxesAreAskedFor) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 3, 0, 0})};
  parts.nodes = {onnx_node("Relu", {"x"}, {"y"})};
  parts.outputs = {onnx_value("y", {0, 3, 0, 0})};
  EXPECT_NE(refusal(parts).find("leaves axis 2 (N) open"), std::string::npos);
  OnnxChoices choices;
  choices.shapes["x"] = {3, 8, 8};
  EXPECT_EQ(imported(parts, choices).graph.spec("x").shape, (Shape{3, 8, 8}));
}

TEST(OnnxImport, WhatNobodyNeedsIsLeftOut) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2})};
  parts.nodes = {onnx_node("Relu", {"x"}, {"y"}), onnx_node("Tanh", {"x"}, {"unused"})};
  parts.outputs = {onnx_value("y", {0, 2})};
  EXPECT_EQ(imported(parts).graph.layers().size(), 1U);
}

TEST(OnnxImport, AWholeTensorIsOneSampleWhereThereIsNoBatch) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {3, 2})};
  parts.nodes = {onnx_node("Concat", {"x", "x"}, {"y"}, {onnx_integer("axis", 0)}),
                 onnx_node("Shape", {"y"}, {"s"})};
  parts.outputs = {onnx_value("y", {6, 2}), onnx_value("s", {2})};
  EXPECT_NE(refusal(parts).find("(--batch none)"), std::string::npos);
  OnnxChoices choices;
  choices.batch = -1;
  const OnnxImport result = imported(parts, choices);
  EXPECT_EQ(result.graph.spec("x").shape, (Shape{3, 2}));
  EXPECT_EQ(result.graph.spec("y").shape, (Shape{6, 2}));
  EXPECT_EQ(result.weights.at("s.value").integers(), (std::vector<std::int64_t>{6, 2}));
}

TEST(OnnxImport, AnInputThatHasToBeKnownIsGiven) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 6}), onnx_value("to", {3})};
  parts.nodes = {onnx_node("Reshape", {"x", "to"}, {"y"})};
  parts.outputs = {onnx_value("y", {})};
  OnnxChoices choices;
  choices.batch = 0;
  EXPECT_NE(refusal(parts, choices).find("--value to=…"), std::string::npos);
  choices.values["to"] = {0, 2, 3};
  EXPECT_EQ(imported(parts, choices).graph.spec("y").shape, (Shape{2, 3}));
  choices.values["other"] = {1};
  EXPECT_EQ(refusal(parts, choices), "test.onnx: there is no input 'other'; the inputs are x, to");
}

TEST(OnnxImport, ABatchOfOneInAWholeTensorIsASample) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {1, 2, 4, 4})};
  parts.initializers = {onnx_tensor("w", {3, 2, 1, 1}, {1, 2, 3, 4, 5, 6})};
  parts.nodes = {onnx_node("Conv", {"x", "w"}, {"y"})};
  parts.outputs = {onnx_value("y", {1, 3, 4, 4})};
  OnnxChoices choices;
  choices.batch = -1;
  const OnnxImport result = imported(parts, choices);
  EXPECT_EQ(result.graph.spec("x").shape, (Shape{1, 2, 4, 4}));
  EXPECT_EQ(result.graph.spec(result.graph.consumers()[0].input).shape, (Shape{1, 3, 4, 4}));
}

TEST(OnnxImport, AConstantMayLieInAnotherFile) {
  const auto entry = [](const char* key, const char* value) {
    return ProtoWriter().bytes(1, key).bytes(2, value).text();
  };
  const std::string tensor = ProtoWriter()
                                 .number(1, 2)
                                 .number(2, 1)
                                 .bytes(13, entry("location", "numbers"))
                                 .bytes(13, entry("offset", "4"))
                                 .number(14, 1)
                                 .text();
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2})};
  parts.nodes = {onnx_node("Constant", {}, {"c"},
                           {ProtoWriter().bytes(1, "value").bytes(5, tensor).number(20, 4).text()}),
                 onnx_node("Add", {"x", "c"}, {"y"})};
  parts.outputs = {onnx_value("y", {0, 2})};
  EXPECT_NE(refusal(parts).find("lies in 'numbers', which is not there"), std::string::npos);
  const std::string file = onnx_file(onnx_graph(parts));
  const OnnxModel model = read_onnx(onnx_bytes(file), "test.onnx");
  const std::vector<float> numbers = {1, 2, 3};
  const OnnxImport result = OnnxImporter(model, "test.onnx", {}, [&](const std::string&) {
                              return std::as_bytes(std::span(numbers));
                            }).run();
  EXPECT_EQ(result.weights.at("y.value").reals(), (std::vector<double>{2, 3}));
}

TEST(OnnxImport, NumbersThatALayerCannotKeepAreRefused) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 1})};
  parts.initializers = {onnx_integers("large", {16'777'217})};
  parts.nodes = {onnx_node("Cast", {"x"}, {"i"}, {onnx_integer("to", 7)}),
                 onnx_node("Add", {"i", "large"}, {"y"})};
  parts.outputs = {onnx_value("y", {0, 1})};
  EXPECT_EQ(refusal(parts),
            "test.onnx: layer 'y' would keep the number 16777217, which float32 cannot hold");
}

TEST(OnnxImport, AHugeFillTakesNoMemory) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 1})};
  parts.initializers = {onnx_integers("shape", {1, 1'000'000'000})};
  parts.nodes = {onnx_node("ConstantOfShape", {"shape"}, {"c"}),
                 onnx_node("Add", {"x", "c"}, {"y"})};
  parts.outputs = {onnx_value("y", {})};
  const OnnxImport result = imported(parts);
  EXPECT_THROW((void)result.weights.at("y.value").tensor(), Error);
}

std::string damage(const std::string& file) {
  try {
    (void)read_onnx(onnx_bytes(file), "test.onnx");
  } catch (const Error& error) {
    return error.what();
  }
  return "read";
}

TEST(OnnxModel, RefusesWhatItsBytesDoNotHold) {
  const std::string claim =
      ProtoWriter().number(1, 1'000'000).number(1, 2'500).number(2, 1).bytes(8, "w").text();
  const std::string file = onnx_file(onnx_graph({{}, {claim}, {}, {}}));
  EXPECT_EQ(damage(file),
            "test.onnx: tensor 'w' is float32 {1000000, 2500}, which takes 10000000000 bytes, but "
            "has 0");
  EXPECT_NE(damage(file.substr(0, file.size() / 2)).find("cut short or damaged"),
            std::string::npos);
  EXPECT_NE(damage("hello").find("test.onnx"), std::string::npos);
}

TEST(OnnxModel, RefusesGraphsInGraphsWithoutEnd) {
  std::string inner = onnx_graph({});
  for (int i = 0; i < kMaxOnnxNesting + 2; ++i) {
    inner = onnx_graph({{onnx_node("If", {"c"}, {"y"},
                                   {ProtoWriter().bytes(1, "then_branch").bytes(6, inner).text()})},
                        {},
                        {},
                        {}});
  }
  EXPECT_NE(damage(onnx_file(inner)).find("deep in one another"), std::string::npos);
}

TEST(OnnxModel, NamesTheOpsetsThatItReads) {
  EXPECT_NE(damage(onnx_file(onnx_graph({}), 99)).find("opset 99, but 7 to 21 are read"),
            std::string::npos);
}

}  // namespace
}  // namespace harmonics::inline in_models
