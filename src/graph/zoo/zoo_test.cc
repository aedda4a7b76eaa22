#include <harmonics/graph/zoo.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/units.h>

namespace harmonics::inline in_graph {
namespace {

using ::testing::HasSubstr;

// The ResNets' and vision transformers' numbers are the published ones (1000 classes).
TEST(ZooTest, EveryNetworkHasItsNumberOfParameters) {
  const std::map<std::string, std::int64_t> parameters = {
      {"digits-mlp", 17'226},   {"lenet", 61'706},          {"lenet-digits", 151'498},
      {"resnet18", 11'689'512}, {"resnet50", 25'557'032},   {"transformer-small", 466'432},
      {"vit-base", 86'567'656}, {"vit-large", 304'326'632},
  };
  ASSERT_EQ(zoo_names().size(), parameters.size());
  for (const std::string& name : zoo_names()) {
    ASSERT_TRUE(parameters.contains(name)) << name;
    EXPECT_EQ(zoo_graph(name).parameter_count(), parameters.at(name)) << name;
  }
}

TEST(ZooTest, EveryNetworkLearnsClassesAndGivesItsPrediction) {
  for (const std::string& name : zoo_names()) {
    const HarmonicGraph graph = zoo_graph(name);
    EXPECT_TRUE(graph.resolved()) << name;
    EXPECT_TRUE(graph.warnings().empty()) << name;
    EXPECT_TRUE(is_user_name(graph.name())) << graph.name();
    ASSERT_EQ(graph.taps().size(), 1u) << name;
    EXPECT_EQ(graph.taps()[0].loss, "cross_entropy");
    EXPECT_EQ(graph.spec(graph.taps()[0].target).dtype, DType::kInt64);
    ASSERT_EQ(graph.consumers().size(), 1u) << name;
    EXPECT_EQ(graph.consumers()[0].name, "prediction");
    EXPECT_EQ(graph.consumers()[0].input, graph.taps()[0].prediction);
  }
}

TEST(ZooTest, UnknownNameListsTheZoo) {
  try {
    (void)zoo_graph("alexnet");
    FAIL() << "an unknown name was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("alexnet"));
    for (const std::string& name : zoo_names()) EXPECT_THAT(error.what(), HasSubstr(name));
  }
}

TEST(ZooTest, ResidualBlocksAreUnits) {
  // Stem, blocks, top.
  EXPECT_EQ(graph_units(zoo_graph("resnet18")).size(), 1u + 8u + 1u);
  EXPECT_EQ(graph_units(zoo_graph("resnet50")).size(), 1u + 16u + 1u);
}

// Multiply-adds of the publications (1.8 and 4.1 billion), two operations each; norms, pooling and
// additions come on top.
TEST(ZooTest, ResnetsCostWhatTheyShould) {
  const std::map<std::string, double> published = {{"resnet18", 3.64e9}, {"resnet50", 8.2e9}};
  for (const auto& [name, flops] : published) {
    double total = 0;
    for (const Unit& unit : graph_units(zoo_graph(name))) total += unit.flops;
    EXPECT_NEAR(total / flops, 1.0, 0.03) << name;
  }
}

// The numbers are those of the published profiles of google/vit-{base,large}-patch16-224: 150,528
// values enter, and after each group these leave.
void expect_profile(const std::string& name, std::size_t blocks,
                    const std::vector<std::int64_t>& per_block) {
  std::vector<std::int64_t> expected;
  for (std::size_t i = 0; i < blocks; ++i) {
    expected.insert(expected.end(), per_block.begin(), per_block.end());
  }
  expected.back() = 1000;
  const HarmonicGraph graph = zoo_graph(name);
  EXPECT_EQ(input_elements(graph), 150'528);
  EXPECT_EQ(graph_units(graph).size(), 4 * blocks);
  EXPECT_EQ(crossing_elements(graph), expected);
}

TEST(ZooTest, VitBaseCrossesWhatItsProfileSays) {
  expect_profile("vit-base", 12, {302'592, 302'592, 756'480, 151'296});
}

TEST(ZooTest, VitLargeCrossesWhatItsProfileSays) {
  expect_profile("vit-large", 24, {403'456, 403'456, 1'008'640, 201'728});
}

TEST(ZooTest, EveryNetworkCanBeWrittenAndReadAsText) {
  for (const std::string& name : zoo_names()) {
    EXPECT_EQ(parse_harp(to_harp(zoo_graph(name))), zoo_graph(name)) << name;
  }
}

// When a network changes on purpose: write to_harp(zoo_graph(name)) into its file.
TEST(ZooTest, ExampleFilesHoldTheZoo) {
  const char* source = std::getenv("HARMONICS_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "HARMONICS_SOURCE_DIR is not set";
  const std::filesystem::path models = std::filesystem::path(source) / "examples" / "models";
  for (const char* name : {"digits-mlp", "lenet", "resnet18", "resnet50", "transformer-small"}) {
    const HarmonicGraph graph = zoo_graph(name);
    EXPECT_EQ(load_harp(models / (graph.name() + ".harp")), graph) << name;
  }
}

TEST(ZooTest, UnitsAddUpToTheGraph) {
  for (const std::string& name : zoo_names()) {
    const HarmonicGraph graph = zoo_graph(name);
    std::int64_t parameters = 0;
    std::size_t next = 0;
    for (const Unit& unit : graph_units(graph)) {
      EXPECT_EQ(unit.first_layer, next) << name << ' ' << unit.name;
      ASSERT_GE(unit.last_layer, unit.first_layer);
      next = unit.last_layer + 1;
      parameters += unit.parameters;
    }
    EXPECT_EQ(next, graph.layers().size()) << name;
    EXPECT_EQ(parameters, graph.parameter_count()) << name;
  }
}

}  // namespace
}  // namespace harmonics::inline in_graph
