// What the .harp language means, and that graphs survive being written and read.
#include <harmonics/graph/harp.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>

#include <temporary_folder_testing.h>
#include <tree_testing.h>

#include "random_graph_testing.h"

namespace harmonics::inline in_graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const LayerNode& layer(const HarmonicGraph& graph, std::string_view name) {
  return graph.layers().at(graph.layer_index(name).value());
}

// The example of the original language: no shapes, ratios, chains over several lines.
constexpr std::string_view kMnist = R"(
harmonic mnist_train_cycle {
  producer mnist_training_data;
  producer mnist_label_data 1/1 mnist_training_data;

  layer input;
  layer hidden 1/2 input;
  layer output 1/2 hidden;

  cycle {
    mnist_training_data -(relu)-> input
                        -(relu)-> hidden
                        -(sigmoid)-> output;
    output <-(cross_entropy)- mnist_label_data;
  }
}
)";

TEST(Harp, OriginalMnistExample) {
  const HarmonicGraph graph = parse_harp(kMnist);
  EXPECT_EQ(graph.name(), "mnist_train_cycle");
  EXPECT_FALSE(graph.resolved());
  ASSERT_EQ(graph.layers().size(), 3U);
  EXPECT_EQ(layer(graph, "hidden").ratio, (Ratio{1, 2, "input"}));
  EXPECT_EQ(layer(graph, "output").activation, "sigmoid");
  ASSERT_EQ(graph.taps().size(), 1U);
  EXPECT_EQ(graph.taps()[0], (TrainingTap{"cross_entropy", "output", "mnist_label_data", 1.0}));

  // One-hot labels: the ratio of the output is a suggestion, its target has the last word.
  const HarmonicGraph one_hot =
      graph.resolved_with({{"mnist_training_data", {{784}, DType::kFloat32}},
                           {"mnist_label_data", {{10}, DType::kFloat32}}});
  EXPECT_EQ(one_hot.spec("input").shape, Shape{784});
  EXPECT_EQ(one_hot.spec("hidden").shape, Shape{392});
  EXPECT_EQ(one_hot.spec("output").shape, Shape{10});
  EXPECT_EQ(one_hot.warnings().size(), 1U);

  // Class ids: they say nothing about the width, so the ratio holds.
  const HarmonicGraph ids = graph.resolved_with({{"mnist_training_data", {{784}, DType::kFloat32}},
                                                 {"mnist_label_data", {{1}, DType::kInt64}}});
  EXPECT_EQ(ids.spec("output").shape, Shape{196});
}

TEST(Harp, WithoutTheWrapperTheNameIsGraph) {
  const HarmonicGraph graph =
      parse_harp("producer x {4}; layer h; consumer y; cycle { x -> h -> y; }");
  EXPECT_EQ(graph.name(), "graph");
  EXPECT_EQ(graph.consumers()[0], (ConsumerNode{"y", "h"}));
}

TEST(Harp, ShapesDtypesAndComments) {
  const HarmonicGraph graph = parse_harp(R"(
    # both kinds of comment, also with text that looks like code: layer x;
    producer a {784};          // 784 — a vector
    producer b {1, 28, 28};
    producer c {1 28 28} uint8;
    producer d {} int64 1/1 a;
    producer e bool;
  )");
  EXPECT_EQ(graph.producers()[0].shape, Shape{784});
  EXPECT_EQ(graph.producers()[1].shape, (Shape{1, 28, 28}));
  EXPECT_EQ(graph.producers()[2], (ProducerNode{"c", Shape{1, 28, 28}, DType::kUInt8}));
  EXPECT_EQ(graph.producers()[3], (ProducerNode{"d", Shape{}, DType::kInt64}));
  EXPECT_EQ(graph.producers()[4], (ProducerNode{"e", std::nullopt, DType::kBool}));
}

TEST(Harp, AttributesByNameByPositionAndOfEveryKind) {
  LayerType type;
  type.name = "test_text";
  type.attributes = {{"word", std::nullopt, true}, {"note", std::nullopt, false}};
  type.infer = [](const LayerQuery& q) { return LayerShape{q.inputs[0], {}, 0}; };
  register_layer_type(type);
  const HarmonicGraph graph = parse_harp(R"(
    producer x {3, 8, 8};
    layer a conv2d(out=32, kernel=3, padding={1, 1}, bias=false);
    layer b conv2d(16, {3 3}, stride=2);
    layer c dropout(0.25);
    layer d reshape({-1});
    layer e linear(10);
    layer f test_text(same, note="a \"b\"\\ c");
    layer g batch_norm(eps=1e-3);
    cycle { x -> a -> b -> c -> d -> e -> f -> g; }
  )");
  EXPECT_EQ(layer(graph, "a").attributes, (Attributes{{"out", std::int64_t{32}},
                                                      {"kernel", std::int64_t{3}},
                                                      {"padding", Shape{1, 1}},
                                                      {"bias", std::int64_t{0}}}));
  EXPECT_EQ(layer(graph, "b").attributes,
            (Attributes{
                {"out", std::int64_t{16}}, {"kernel", Shape{3, 3}}, {"stride", std::int64_t{2}}}));
  EXPECT_EQ(layer(graph, "c").attributes, (Attributes{{"p", 0.25}}));
  EXPECT_EQ(layer(graph, "d").attributes, (Attributes{{"shape", Shape{-1}}}));
  EXPECT_EQ(layer(graph, "f").attributes,
            (Attributes{{"word", std::string("same")}, {"note", std::string("a \"b\"\\ c")}}));
  EXPECT_EQ(layer(graph, "g").attributes, (Attributes{{"eps", 1e-3}}));
  EXPECT_EQ(parse_harp(to_harp(graph)), graph);
}

TEST(Harp, InputsKeepTheirOrder) {
  const HarmonicGraph graph = parse_harp(R"(
    producer a {2}; producer b {3}; producer c {4};
    layer all concat; layer again concat;
    cycle {
      c, a -> all;
      b -> all;
      all, all -> again;
    }
  )");
  EXPECT_THAT(layer(graph, "all").inputs, ElementsAre("c", "a", "b"));
  EXPECT_THAT(layer(graph, "again").inputs, ElementsAre("all", "all"));
}

TEST(Harp, BranchesStartWhereTheLineStarts) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {4}; layer a; layer b; layer c; layer d; layer e;
    cycle {
      x -> a -> b | -(relu)-> c | -> d;
      -> e;
    }
  )");
  EXPECT_THAT(layer(graph, "a").inputs, ElementsAre("x"));
  EXPECT_THAT(layer(graph, "b").inputs, ElementsAre("a"));
  EXPECT_THAT(layer(graph, "c").inputs, ElementsAre("x"));
  EXPECT_EQ(layer(graph, "c").activation, "relu");
  EXPECT_THAT(layer(graph, "d").inputs, ElementsAre("x"));
  EXPECT_THAT(layer(graph, "e").inputs, ElementsAre("d"));  // the last node of the line before
}

TEST(Harp, LineWithoutSourceGoesOnFromThePrediction) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {4}; producer y {4}; producer z {4}; layer a; consumer out;
    cycle {
      x -> a <-(mse)- y <-(bce * 0.25)- z;
      -(softmax)-> out;
    }
  )");
  EXPECT_THAT(graph.taps(),
              ElementsAre(TrainingTap{"mse", "a", "y", 1.0}, TrainingTap{"bce", "a", "z", 0.25}));
  EXPECT_EQ(graph.consumers()[0], (ConsumerNode{"out", "a", "softmax"}));
}

TEST(Harp, TheSameActivationTwiceIsFine) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {4}; producer y {4}; producer z {4}; layer s add;
    cycle { x -(relu)-> s; y -(relu)-> s; z -> s; }
  )");
  EXPECT_EQ(layer(graph, "s").activation, "relu");
  EXPECT_EQ(layer(graph, "s").inputs.size(), 3U);
}

TEST(Harp, DeclarationsMayFollowTheCycle) {
  const HarmonicGraph graph = parse_harp("cycle { x -> h; } layer h linear(2); producer x {4};");
  EXPECT_EQ(graph.spec("h").shape, Shape{2});
}

TEST(Harp, GroupsAndRepeats) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {8};
    layer h0;
    repeat 3 as i {
      group block$i {
        layer norm$i layer_norm;
        repeat 2 as k { layer dense$(i).$k linear($(i*8)); }
        layer h$i linear(8);
      }
    }
    consumer out;
    cycle {
      x -> h0;
      repeat 3 as i {
        h$(i-1) -> norm$i;
        repeat 2 as k { -(gelu)-> dense$(i).$k; }
        -> h$i;
      }
      -> out;
    }
  )");
  ASSERT_EQ(graph.layers().size(), 13U);
  EXPECT_EQ(layer(graph, "h0").group, "");
  EXPECT_EQ(layer(graph, "dense2.1").group, "block2");
  EXPECT_EQ(layer(graph, "dense2.1").activation, "gelu");
  EXPECT_THAT(layer(graph, "norm3").inputs, ElementsAre("h2"));
  EXPECT_THAT(layer(graph, "dense3.1").inputs, ElementsAre("norm3"));
  EXPECT_THAT(layer(graph, "h3").inputs, ElementsAre("dense3.2"));
  EXPECT_EQ(graph.spec("dense3.2").shape, Shape{24});
  EXPECT_EQ(graph.consumers()[0].input, "h3");
  EXPECT_EQ(parse_harp(to_harp(graph)), graph);
}

TEST(Harp, ContextualWordsCanBeNames) {
  const HarmonicGraph graph = parse_harp(R"(
    producer repeat {4}; producer data {4}; layer cycle add; layer consumer; layer if; consumer train;
    cycle {
      repeat, data -> cycle;
      -> consumer -> if;
      if -> train;
    }
  )");
  EXPECT_THAT(layer(graph, "cycle").inputs, ElementsAre("repeat", "data"));
  EXPECT_THAT(layer(graph, "consumer").inputs, ElementsAre("cycle"));
  EXPECT_EQ(graph.consumers()[0].input, "if");
  EXPECT_EQ(parse_harp(to_harp(graph)), graph);
}

TEST(Harp, ConsumerNamedLikeALayerIsSpelledOut) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {4}; layer y; layer z; consumer y; consumer x;
    cycle { x -> y -> z -> consumer y; y -> x; }
  )");
  EXPECT_EQ(graph.consumers()[0], (ConsumerNode{"y", "z"}));
  EXPECT_EQ(graph.consumers()[1], (ConsumerNode{"x", "y"}));
  EXPECT_EQ(parse_harp(to_harp(graph)), graph);
}

TEST(Harp, WeightsSection) {
  const HarpDocument document = parse_harp_document(
      "harmonic g { producer x {4}; layer weights linear(2); cycle { x -> weights; } }\n"
      "weights { file = \"g.safetensors\"; }",
      "g.harp");
  ASSERT_NE(document.weights.find("file"), nullptr);
  EXPECT_EQ(document.weights.find("file")->value, "g.safetensors");
  EXPECT_TRUE(document.graph.layer_index("weights"));
}

TEST(Harp, DataAndTrainSections) {
  constexpr std::string_view kText =
      R"(data { image = "csv:data/x.csv?columns=0-63"; test_split = 0.2; }
harmonic g {
  producer image {64};
  train {
    epochs = 30; lr = 1e-3;
    optimizer = adam; momentum = -0.5;
  }
}
data { seed = 7; }
)";
  const HarpDocument document = parse_harp_document(kText, "g.harp");
  EXPECT_THAT(document.data.entries,
              ElementsAre(Setting{"image", "csv:data/x.csv?columns=0-63", 1},
                          Setting{"test_split", "0.2", 1}, Setting{"seed", "7", 9}));
  EXPECT_THAT(document.train.entries,
              ElementsAre(Setting{"epochs", "30", 5}, Setting{"lr", "1e-3", 5},
                          Setting{"optimizer", "adam", 6}, Setting{"momentum", "-0.5", 6}));
  EXPECT_EQ(document.train.find("optimizer")->value, "adam");
  EXPECT_EQ(document.train.find("image"), nullptr);
  EXPECT_TRUE(document.folder.empty());
}

TEST(Harp, LoadKnowsTheFolder) {
  const TemporaryFolder folder;
  write_text_file(folder / "mnist.harp", kMnist);
  EXPECT_EQ(load_harp_document(folder / "mnist.harp").folder, folder.path());
  EXPECT_EQ(load_harp(folder / "mnist.harp"), parse_harp(kMnist));
  write_text_file(folder / "bad.harp", "layer;");
  try {
    (void)load_harp(folder / "bad.harp");
    ADD_FAILURE() << "bad.harp was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder / "bad.harp").string() + ":1:6: "));
  }
  EXPECT_THROW((void)load_harp(folder / "none.harp"), Error);
}

// --- the shipped examples ---

std::filesystem::path examples() { return source_folder() / "examples"; }

TEST(HarpExamples, DigitsAndLenetNameTheirData) {
  for (const char* name : {"digits.harp", "lenet.harp"}) {
    const HarpDocument document = load_harp_document(examples() / name);
    EXPECT_TRUE(document.graph.resolved()) << name;
    EXPECT_EQ(document.graph.spec(document.graph.taps().at(0).prediction).shape, Shape{10}) << name;
    for (const ProducerNode& producer : document.graph.producers()) {
      const Setting* binding = document.data.find(producer.name);
      ASSERT_NE(binding, nullptr) << name << " binds no " << producer.name;
      const std::string path = binding->value.substr(4, binding->value.find('?') - 4);
      EXPECT_TRUE(std::filesystem::exists(document.folder / path)) << path;
    }
    EXPECT_EQ(document.data.find("test_split")->value, "0.2");
    EXPECT_EQ(document.train.find("epochs")->value, "30");
  }
}

TEST(HarpExamples, MnistAndTransformerParse) {
  EXPECT_EQ(load_harp(examples() / "mnist.harp"), parse_harp(kMnist));
  const HarmonicGraph transformer = load_harp(examples() / "transformer.harp");
  EXPECT_TRUE(transformer.resolved());
  EXPECT_EQ(parse_harp(to_harp(transformer)), transformer);
}

// --- the reference ---

std::string reference() {
  return read_text_file(examples().parent_path() / "docs" / "formats" / "harp.md");
}

TEST(HarpReference, ItsFirstExampleParses) {
  const std::string text = reference();
  const std::size_t begin = text.find("```\nharmonic") + 4;
  const HarpDocument document =
      parse_harp_document(text.substr(begin, text.find("```", begin) - begin), "harp.md");
  EXPECT_TRUE(document.graph.resolved());
  EXPECT_EQ(document.train.find("epochs")->value, "30");
}

TEST(HarpReference, NamesEveryLayerAttributeActivationAndLoss) {
  const std::string text = reference();
  const auto names = [&](const std::string& name) {
    return text.find("`" + name) != std::string::npos;
  };
  for (const std::string& type : layer_type_names()) {
    if (type.starts_with("test_")) continue;  // registered by a test above
    EXPECT_TRUE(names(type)) << type;
    for (const AttributeSpec& attribute : find_layer_type(type)->attributes) {
      EXPECT_TRUE(names(attribute.name)) << type << " " << attribute.name;
    }
  }
  // The parameters of all layers of the zoo, in the row of their type.
  for (const std::string& model : zoo_names()) {
    const HarmonicGraph graph = zoo_graph(model);
    for (std::size_t i = 0; i < graph.layers().size(); ++i) {
      const std::size_t row = text.find("| `" + graph.layers()[i].type + "`");
      if (row == std::string::npos) continue;  // shares its row with another type
      const std::string line = text.substr(row, text.find('\n', row) - row);
      for (const ParameterSpec& parameter : graph.layer_shape(i).parameters) {
        EXPECT_NE(line.find("`" + parameter.name + "`"), std::string::npos)
            << graph.layers()[i].type << " " << parameter.name;
      }
    }
  }
  for (const std::string& name : activation_type_names()) EXPECT_TRUE(names(name)) << name;
  for (const std::string& name : loss_type_names()) EXPECT_TRUE(names(name)) << name;
}

// --- round trips ---

TEST(HarpRoundTrip, RandomGraphsAndTheirParts) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    RandomGraphOptions options;
    options.groups = seed % 3 == 0;
    const HarmonicGraph graph = random_graph(seed, options);
    EXPECT_EQ(parse_harp(to_harp(graph)), graph) << "seed " << seed;
    for (const HarmonicGraph& part : partition_graph(graph, 1 + seed % 4)) {
      EXPECT_EQ(parse_harp(to_harp(part)), part) << "seed " << seed << "\n" << to_harp(part);
    }
  }
}

TEST(HarpRoundTrip, Zoo) {
  for (const std::string& name : zoo_names()) {
    const HarmonicGraph graph = zoo_graph(name);
    EXPECT_EQ(parse_harp(to_harp(graph)), graph) << name;
  }
}

TEST(HarpRoundTrip, WhatOnlyABuilderCanSay) {
  GraphBuilder builder("a name with \"quotes\", \\ and\n a line");
  builder.add(ProducerNode{"h@1", Shape{4}, DType::kBFloat16, 3});
  builder.producer("t@1@2", std::nullopt, DType::kFloat64);
  builder.group("group with spaces").layer("h", "dropout", {{"p", 1.0 / 3.0}}, {"h@1"});
  builder.group("").layer("between", "identity", {}, {"h"});
  builder.group("group with spaces")
      .layer("k", "dropout", {{"p", std::string("true")}}, {"between"});
  builder.layer("l", "reshape", {{"shape", std::numeric_limits<std::int64_t>::min()}}, {"k"});
  ConsumerNode out{"h@2", "h", "relu", Shape{4}, 2};
  builder.add(out).tap("mse", "h", "t@1@2", 1e-7);
  const HarmonicGraph graph = builder.build();
  EXPECT_FALSE(graph.resolved());
  EXPECT_EQ(parse_harp(to_harp(graph)), graph) << to_harp(graph);
  EXPECT_EQ(parse_harp(to_harp(GraphBuilder("").producer("x").build())).name(), "");
}

}  // namespace
}  // namespace harmonics::inline in_graph
