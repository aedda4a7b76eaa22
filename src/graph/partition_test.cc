#include <harmonics/graph/partition.h>

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/graph/units.h>

#include <error_testing.h>

#include "random_graph_testing.h"

namespace harmonics::inline in_graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Attributes out(std::int64_t width) { return {{"out", width}}; }

std::vector<HarmonicGraph> cut_at(const HarmonicGraph& graph,
                                  std::vector<std::size_t> first_layers) {
  return cut_graph(graph, first_layers);
}

template <typename Nodes>
std::vector<std::string> names(const Nodes& nodes) {
  std::vector<std::string> all;
  for (const auto& node : nodes) all.push_back(node.name);
  return all;
}

const ProducerNode& producer(const HarmonicGraph& graph, const std::string& name) {
  return graph.producers().at(graph.producer_index(name).value());
}

const ConsumerNode& consumer(const HarmonicGraph& graph, const std::string& name) {
  for (const ConsumerNode& node : graph.consumers()) {
    if (node.name == name) return node;
  }
  throw std::out_of_range(name);
}

// input -> a -> b -> c -> d, a learning chain.
HarmonicGraph chain() {
  GraphBuilder b("net");
  b.producer("input", Shape{8}).producer("label", Shape{}, DType::kInt64);
  b.layer("a", "linear", out(16), {"input"}, "relu").layer("b", "linear", out(16), {"a"}, "tanh");
  b.layer("c", "linear", out(16), {"b"}, "relu").layer("d", "linear", out(4), {"c"});
  return b.tap("cross_entropy", "d", "label").consumer("output", "d", "softmax").build();
}

TEST(PartitionTest, AChainIsCutBetweenItsLayers) {
  const auto parts = cut_at(chain(), {0, 2});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].name(), "net_0");
  EXPECT_EQ(parts[1].name(), "net_1");
  EXPECT_THAT(names(parts[0].producers()), ElementsAre("input"));
  EXPECT_THAT(names(parts[0].layers()), ElementsAre("a", "b"));
  EXPECT_THAT(names(parts[0].consumers()), ElementsAre("b@1"));
  EXPECT_THAT(names(parts[1].producers()), ElementsAre("label", "b@1"));
  EXPECT_THAT(names(parts[1].layers()), ElementsAre("c", "d"));
  EXPECT_THAT(names(parts[1].consumers()), ElementsAre("output"));
  EXPECT_EQ(parts[1].layers()[0].inputs, std::vector<std::string>{"b@1"});
  EXPECT_THAT(parts[0].taps(), IsEmpty());
  EXPECT_EQ(parts[1].taps(), chain().taps());
}

TEST(PartitionTest, AnActivationStaysWithItsLayer) {
  const auto parts = cut_at(chain(), {0, 2});
  EXPECT_EQ(parts[0].layers()[1].activation, "tanh");
  EXPECT_EQ(consumer(parts[0], "b@1").activation, "");
  EXPECT_EQ(parts[1].layers()[0].activation, "relu");
  EXPECT_EQ(consumer(parts[1], "output").activation, "softmax");
}

TEST(PartitionTest, OnePartIsTheWholeGraph) {
  const auto parts = partition_graph(chain(), 1);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].name(), "net_0");
  EXPECT_EQ(parts[0].layers(), chain().layers());
  EXPECT_EQ(parts[0].producers(), chain().producers());
  EXPECT_EQ(parts[0].consumers(), chain().consumers());
}

TEST(PartitionTest, PartsStandAloneWithoutRatiosAndTargets) {
  GraphBuilder b("net");
  b.producer("input", Shape{8}).producer("target", Shape{3});
  b.add(LayerNode{"half", "linear", {}, Ratio{1, 2, "input"}, {"input"}});
  b.add(LayerNode{"quarter", "linear", {}, Ratio{1, 4, "input"}, {"half"}});
  b.add(LayerNode{"end", "linear", {}, std::nullopt, {"quarter"}});  // as wide as its target
  const auto parts = partition_graph(b.tap("mse", "end", "target").build(), 3);
  const std::vector<std::int64_t> widths = {4, 2, 3};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_FALSE(parts[i].layers()[0].ratio.has_value());
    EXPECT_EQ(parts[i].layers()[0].attributes, out(widths[i]));
  }
}

TEST(PartitionTest, ATensorIsSentOnceHoweverManyLayersUseIt) {
  GraphBuilder b("net");
  b.producer("input", Shape{4}).producer("target", Shape{4});
  b.layer("x", "linear", out(4), {"input"}).layer("p", "linear", out(4), {"x"});
  b.layer("q", "add", {}, {"x", "x"}).layer("r", "add", {}, {"p", "q"});
  const auto parts = cut_at(b.tap("mse", "r", "target").build(), {0, 1});
  EXPECT_THAT(names(parts[0].consumers()), ElementsAre("x@1"));
  EXPECT_EQ(consumer(parts[0], "x@1").gradient_slots, 3u);
  EXPECT_EQ(producer(parts[1], "x@1").gradient_slots, 3u);
  EXPECT_THAT(parts[1].layers()[1].inputs, ElementsAre("x@1", "x@1"));
}

TEST(PartitionTest, ASkipGoesStraightFromItsOwnerToEachUser) {
  GraphBuilder b("net");
  b.producer("input", Shape{4}).producer("target", Shape{4});
  b.layer("x", "linear", out(4), {"input"}).layer("y", "linear", out(4), {"x"});
  b.layer("z", "linear", out(4), {"y"}).layer("sum", "add", {}, {"z", "x"});
  const auto parts = partition_graph(b.tap("mse", "sum", "target").build(), 4);
  EXPECT_THAT(names(parts[0].consumers()), ElementsAre("x@1", "x@3"));
  EXPECT_THAT(names(parts[1].producers()), ElementsAre("x@1"));
  EXPECT_THAT(names(parts[2].producers()), ElementsAre("y@2"));
  EXPECT_THAT(names(parts[3].producers()), ElementsAre("target", "x@3", "z@3"));
  EXPECT_THAT(parts[3].layers()[0].inputs, ElementsAre("z@3", "x@3"));
}

TEST(PartitionTest, AProducerLivesInTheFirstPartThatUsesItAndCrossesWithoutGradient) {
  GraphBuilder b("net");
  b.producer("late", Shape{4}).producer("input", Shape{4}).producer("unused", Shape{2});
  b.layer("a", "linear", out(4), {"input"}).layer("b", "add", {}, {"a", "late"});
  b.layer("c", "add", {}, {"b", "late"}).consumer("copy", "late").consumer("rest", "unused");
  const auto parts = partition_graph(b.tap("mse", "c", "input").build(), 3);
  EXPECT_THAT(names(parts[0].producers()), ElementsAre("input", "unused"));
  EXPECT_THAT(names(parts[1].producers()), ElementsAre("late", "a@1"));
  EXPECT_THAT(names(parts[2].producers()), ElementsAre("late@2", "input@2", "b@2"));
  EXPECT_EQ(producer(parts[2], "late@2").gradient_slots, 0u);
  EXPECT_EQ(producer(parts[2], "input@2").gradient_slots, 0u);
  EXPECT_EQ(producer(parts[2], "b@2").gradient_slots, 1u);
  EXPECT_THAT(names(parts[1].consumers()), ElementsAre("late@2", "b@2", "copy"));
  EXPECT_EQ(consumer(parts[0], "rest").input, "unused");
}

TEST(PartitionTest, ATapLivesWithTheLaterOfItsOperands) {
  GraphBuilder b("net");
  b.producer("input", Shape{4}).producer("target", Shape{4});
  b.layer("a", "linear", out(4), {"input"}).layer("b", "linear", out(4), {"a"});
  b.layer("c", "linear", out(4), {"b"});
  b.tap("mse", "a", "c").tap("mse", "c", "a").tap("mse", "b", "target");
  const auto parts = partition_graph(b.build(), 3);
  EXPECT_THAT(parts[0].taps(), IsEmpty());
  EXPECT_EQ(parts[1].taps(), (std::vector<TrainingTap>{{"mse", "b", "target"}}));
  EXPECT_THAT(names(parts[1].producers()), ElementsAre("target", "a@1"));
  EXPECT_EQ(parts[2].taps(), (std::vector<TrainingTap>{{"mse", "a@2", "c"}, {"mse", "c", "a@2"}}));
  // Once as a prediction; as a target it is a constant.
  EXPECT_EQ(producer(parts[2], "a@2").gradient_slots, 1u);
  EXPECT_EQ(consumer(parts[0], "a@2").gradient_slots, 1u);
}

TEST(PartitionTest, AUseThatReachesNoLossReturnsNoGradient) {
  GraphBuilder b("net");
  b.producer("input", Shape{4}).producer("target", Shape{4});
  b.layer("a", "linear", out(4), {"input"}).layer("side", "linear", out(4), {"a"});
  b.layer("b", "linear", out(4), {"a"}).layer("c", "linear", out(4), {"b"});
  b.consumer("monitor", "side");
  const HarmonicGraph learning = GraphBuilder(b).tap("mse", "c", "target").build();
  auto parts = cut_at(learning, {0, 1, 3});
  EXPECT_EQ(producer(parts[1], "a@1").gradient_slots, 1u);  // b leads on to c's loss, side does not
  EXPECT_EQ(producer(parts[2], "b@2").gradient_slots, 1u);
  parts = cut_at(b.build(), {0, 1, 3});
  EXPECT_EQ(producer(parts[1], "a@1").gradient_slots, 0u);
  EXPECT_EQ(producer(parts[2], "b@2").gradient_slots, 0u);
}

TEST(PartitionTest, IntegersReturnNoGradient) {
  GraphBuilder b("net");
  b.producer("ids", Shape{4}, DType::kInt64).producer("target", Shape{4, 2});
  b.layer("same", "identity", {}, {"ids"});
  b.layer("embed", "embedding", {{"rows", std::int64_t{9}}, {"width", std::int64_t{2}}}, {"same"});
  const auto parts = partition_graph(b.tap("mse", "embed", "target").build(), 2);
  EXPECT_EQ(producer(parts[1], "same@1").dtype, DType::kInt64);
  EXPECT_EQ(producer(parts[1], "same@1").gradient_slots, 0u);
}

TEST(PartitionTest, APartCanBeCutAgain) {
  GraphBuilder b("net");
  b.producer("input", Shape{4}).producer("target", Shape{4});
  b.layer("x", "linear", out(4), {"input"}).layer("w", "linear", out(4), {"x"});
  b.layer("y", "add", {}, {"x", "w"}).layer("z", "add", {}, {"y", "x"});
  const auto parts = cut_at(b.tap("mse", "z", "target").build(), {0, 2});
  const auto first = partition_graph(parts[0], 2);
  const auto second = partition_graph(parts[1], 2);
  EXPECT_EQ(first[1].name(), "net_0_1");
  // x@1 is taken by the first cut, so the second one counts on by its own two parts.
  EXPECT_THAT(names(first[0].consumers()), ElementsAre("x@3", "x@1"));
  EXPECT_THAT(names(first[1].producers()), ElementsAre("x@3"));
  EXPECT_EQ(producer(first[1], "x@3").gradient_slots, 1u);
  EXPECT_THAT(names(second[0].consumers()), ElementsAre("x@1@1", "y@1"));
  EXPECT_EQ(producer(second[0], "x@1").gradient_slots, 2u);
  EXPECT_EQ(producer(second[1], "x@1@1").gradient_slots, 1u);
}

TEST(PartitionTest, ImpossibleCutsAreErrors) {
  const HarmonicGraph graph = chain();
  const auto invalid = ErrorCode::kInvalidArgument;
  expect_error(invalid, "1 to 4", [&] { (void)partition_graph(graph, 0); });
  expect_error(invalid, "into 5 parts", [&] { (void)partition_graph(graph, 5); });
  expect_error(invalid, "0 layers", [&] { (void)partition_graph(GraphBuilder("e").build(), 1); });
  expect_error(invalid, "0 parts", [&] { (void)cut_at(graph, {}); });
  expect_error(invalid, "begin with 0", [&] { (void)cut_at(graph, {1, 2}); });
  expect_error(invalid, "layers 0 2 2", [&] { (void)cut_at(graph, {0, 2, 2}); });
  expect_error(invalid, "below 4", [&] { (void)cut_at(graph, {0, 4}); });
  const std::vector<double> weights = {1.0, 0.0};
  expect_error(invalid, "above 0", [&] { (void)balanced_first_layers(graph, weights); });
}

TEST(PartitionTest, AnUnresolvedGraphIsAnError) {
  const HarmonicGraph graph =
      GraphBuilder("net").producer("input").layer("a", "linear", out(2), {"input"}).build();
  const auto check = [&](auto call) {
    expect_error(ErrorCode::kFailedPrecondition, "'input' is not known yet", call);
  };
  check([&] { (void)partition_graph(graph, 1); });
  check([&] { (void)cut_at(graph, {0}); });
  check([&] { (void)graph_units(graph); });
  check([&] { (void)input_elements(graph); });
  check([&] { (void)crossing_elements(graph); });
}

// Six layers in three groups and one layer alone.
HarmonicGraph grouped() {
  GraphBuilder b("net");
  b.producer("input", Shape{8});
  b.group("g0").layer("a", "linear", out(8), {"input"}).layer("b", "linear", out(8), {"a"});
  b.group("g1").layer("c", "linear", out(8), {"b"}).layer("d", "linear", out(8), {"c"});
  b.group("").layer("e", "linear", out(8), {"d"});
  b.group("g2").layer("f", "concat", {}, {"e", "a"});
  return b.consumer("output", "f").build();
}

TEST(UnitsTest, GroupsAndLoneLayersAreUnits) {
  const double flops = 2 * 8 * 8;
  EXPECT_THAT(graph_units(grouped()),
              ElementsAre(Unit{"g0", 0, 1, 2 * flops, 144}, Unit{"g1", 2, 3, 2 * flops, 144},
                          Unit{"e", 4, 4, flops, 72}, Unit{"g2", 5, 5, 0, 0}));
  EXPECT_EQ(layer_cost(grouped(), 0), flops + kLayerOverheadFlops);
}

TEST(UnitsTest, CrossingCountsEachLivingTensorOnce) {
  EXPECT_EQ(input_elements(grouped()), 8);
  // b and a; d and a; e and a; what leaves.
  EXPECT_THAT(crossing_elements(grouped()), ElementsAre(16, 16, 16, 16));
  GraphBuilder b("net");
  b.producer("input", Shape{3}).producer("late", Shape{5}).producer("label", Shape{5});
  b.layer("a", "linear", out(5), {"input"}).layer("b", "add", {}, {"a", "late"});
  b.layer("c", "add", {}, {"b", "late"}).tap("mse", "a", "c").tap("mse", "c", "label");
  b.consumer("one", "a").consumer("two", "a").consumer("three", "input");
  EXPECT_EQ(input_elements(b.build()), 3 + 5);
  EXPECT_THAT(crossing_elements(b.build()), ElementsAre(5, 5 + 5 + 5, 5 + 3));
  EXPECT_THAT(crossing_elements(GraphBuilder("empty").build()), IsEmpty());
}

TEST(UnitsTest, AGroupInTwoPiecesIsAnErrorThatNamesIt) {
  GraphBuilder b("net");
  b.producer("input", Shape{4});
  b.group("torn").layer("a", "linear", out(4), {"input"});
  b.group("").layer("b", "linear", out(4), {"a"});
  b.group("torn").layer("c", "linear", out(4), {"b"});
  const HarmonicGraph graph = b.build();
  expect_error(ErrorCode::kInvalidArgument, "'torn'", [&] { (void)graph_units(graph); });
  expect_error(ErrorCode::kInvalidArgument, "'torn'", [&] { (void)partition_graph(graph, 2); });
}

TEST(PartitionTest, GroupsStayWholeWhileThereAreEnough) {
  for (std::size_t count = 1; count <= 4; ++count) {
    std::map<std::string, std::size_t> part_of;
    const auto parts = partition_graph(grouped(), count);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (const LayerNode& layer : parts[p].layers()) {
        if (layer.group.empty()) continue;
        EXPECT_EQ(part_of.emplace(layer.group, p).first->second, p) << layer.group;
      }
    }
  }
  EXPECT_EQ(partition_graph(grouped(), 6).size(), 6u);
}

TEST(PartitionTest, TheLargestGraphCanBeCut) {
  GraphBuilder b("net");
  b.producer("x0", Shape{1});
  const std::size_t layers = kMaxGraphNodes - 1;
  for (std::size_t i = 1; i <= layers; ++i) {
    b.layer(format("x{}", i), "identity", {}, {format("x{}", i - 1)});
  }
  const HarmonicGraph graph = b.build();
  for (const std::size_t count : {std::size_t{3}, std::size_t{1000}}) {
    const auto parts = partition_graph(graph, count);
    ASSERT_EQ(parts.size(), count);
    for (const HarmonicGraph& part : parts) {
      EXPECT_LE(part.layers().size(), (layers + count - 1) / count);
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_graph
