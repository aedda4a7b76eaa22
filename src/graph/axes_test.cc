// Named axes: what a graph makes of them, in memory, as text, as bytes and in parts.
#include <harmonics/graph/axes.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/graph/blob.h>
#include <harmonics/graph/export.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>

#include "random_graph_testing.h"

namespace harmonics::inline in_graph {
namespace {

using testing::HasSubstr;

constexpr std::string_view kText = R"(harmonic tagger {
  axis T <= 64;
  producer ids {T} int64;
  producer tags {T+1} int64;
  consumer out {T+1, 5};
  layer embed embedding(rows=30, width=8);
  layer start class_token;
  layer mix attention(heads=2);
  layer head linear(5);
  cycle {
    ids -> embed -> start -> mix -> head -> out;
    head <-(cross_entropy)- tags;
  }
}
)";

HarmonicGraph tagger() { return parse_harp(kText); }

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string refusal_of_text(const std::string& text) {
  return refusal([&] { (void)parse_harp(text); });
}

TEST(Axes, ShapesStandForTheCeilingUnlessToldOtherwise) {
  const HarmonicGraph graph = tagger();
  ASSERT_EQ(graph.axes().size(), 1U);
  EXPECT_EQ(graph.axes()[0], (AxisNode{"T", 64, 64}));
  EXPECT_EQ(graph.spec("ids").shape, Shape({64}));
  EXPECT_EQ(graph.spec("mix").shape, Shape({65, 8}));
  EXPECT_EQ(graph.named_extents("mix"), (NamedExtents{{0, "T", 1, 1}}));
  EXPECT_EQ(graph.shape_text_of("mix"), "{T+1, 8}");
  const HarmonicGraph shorter = graph.with_axes({{"T", 10}});
  EXPECT_EQ(shorter.spec("mix").shape, Shape({11, 8}));
  EXPECT_EQ(shorter.producers()[1].shape, Shape({11}));
  EXPECT_EQ(shorter.named_extents("mix"), graph.named_extents("mix"));
  EXPECT_LT(shorter.layer_shape(2).flops, graph.layer_shape(2).flops);
  EXPECT_EQ(shorter.with_axes({{"T", 64}}), graph);
}

TEST(Axes, AFixedAxisIsGone) {
  const HarmonicGraph graph = tagger().with_fixed_axes({{"T", 10}});
  EXPECT_TRUE(graph.axes().empty());
  EXPECT_EQ(graph.spec("mix").shape, Shape({11, 8}));
  EXPECT_TRUE(graph.named_extents("mix").empty());
  EXPECT_THAT(to_harp(graph), HasSubstr("producer tags {11} int64;"));
}

TEST(Axes, ExtentsMultiplyAndAdd) {
  GraphBuilder builder("g");
  builder.axis("T", 20).axis("S", 7);
  builder.named_producer("x", {Extent("T", 2, 1), 4}).named_producer("y", {"S", 4});
  builder.layer("flat", "flatten", {}, {"x"});
  builder.layer("mean", "mean", {}, {"y"});
  builder.layer("window", "reshape", {{"shape", Shape{1, -1, 4}}}, {"x"});
  builder.layer("conv", "conv2d", {{"out", std::int64_t{3}}, {"kernel", Shape{3, 4}}}, {"window"});
  const HarmonicGraph graph = builder.build();
  EXPECT_EQ(graph.shape_text_of("flat"), "{8*T+4}");
  EXPECT_EQ(graph.shape_text_of("mean"), "{4}");
  EXPECT_EQ(graph.shape_text_of("conv"), "{3, 2*T-1, 1}");
  EXPECT_EQ(graph.with_axes({{"T", 6}}).spec("conv").shape, Shape({3, 11, 1}));
}

TEST(Axes, TextBytesAndPartsKeepThem) {
  for (const HarmonicGraph& graph : {tagger(), tagger().with_axes({{"T", 9}})}) {
    EXPECT_EQ(parse_harp(to_harp(graph)), graph);
    EXPECT_EQ(decode_graph(encode_graph(graph)), graph);
    for (const HarmonicGraph& part : partition_graph(graph, 4)) {
      EXPECT_EQ(part.axes(), graph.axes());
      EXPECT_EQ(parse_harp(to_harp(part)), part);
      EXPECT_EQ(decode_graph(encode_graph(part)), part);
    }
  }
  EXPECT_THAT(to_harp(tagger()), HasSubstr("  axis T <= 64;\n  producer ids {T} int64;"));
  EXPECT_THAT(to_harp(tagger().with_axes({{"T", 9}})), HasSubstr("axis T = 9 <= 64;"));
  const HarmonicGraph second = cut_graph(tagger(), std::vector<std::size_t>{0, 2})[1];
  EXPECT_THAT(to_harp(second), HasSubstr("producer start@1 {T+1, 8} gradients 1;"));
}

// The head {5} of a pooled sequence knows nothing of its length.
TEST(Axes, APartKnowsOnlyTheAxesItFollows) {
  const HarmonicGraph graph = parse_harp(
      "axis T <= 9; producer x {T, 4}; layer m mean; layer h linear(2); cycle { x -> m -> h; }");
  const std::vector<HarmonicGraph> parts = partition_graph(graph, 2);
  EXPECT_EQ(parts[0].axes().size(), 1U);
  EXPECT_TRUE(parts[1].axes().empty());
}

TEST(Axes, OnlyGraphsWithAxesAreOfTheSecondVersion) {
  EXPECT_EQ(encode_graph(tagger())[4], std::byte{2});
  EXPECT_EQ(encode_graph(random_graph(1))[4], std::byte{1});
  EXPECT_EQ(encode_graph(tagger().with_fixed_axes({{"T", 4}}))[4], std::byte{1});
  Bytes bytes = encode_graph(random_graph(1));
  bytes[4] = std::byte{2};
  EXPECT_NE(refusal([&] { (void)decode_graph(bytes); }), "no error");
}

TEST(Axes, EveryCutOffBlobIsRefused) {
  const Bytes bytes = encode_graph(tagger());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(refusal([&] { (void)decode_graph(ByteSpan(bytes).first(size)); }), "no error");
  }
}

TEST(Axes, PicturesNameThem) {
  EXPECT_THAT(to_dot(tagger()), HasSubstr("{T+1, 8}"));
  EXPECT_THAT(to_svg(tagger()), HasSubstr("{T+1, 8}"));
}

TEST(Axes, ValuesOutsideAndUnknownAxesAreErrors) {
  EXPECT_THAT(refusal([] {
                (void)tagger().with_axes({{"T", 65}});
              }),
              HasSubstr("axis T of graph 'tagger' is 1 to 64, not 65"));
  EXPECT_THAT(refusal([] { (void)tagger().with_axes({{"T", 0}}); }), HasSubstr("1 to 64, not 0"));
  EXPECT_THAT(refusal([] {
                (void)tagger().with_axes({{"t", 3}});
              }),
              HasSubstr("the axis 't', which is not declared; there are: T"));
}

TEST(Axes, MistakesInATextShowTheirPlace) {
  EXPECT_THAT(refusal_of_text("axis Time <= 9;\nproducer x {Tim};"),
              HasSubstr("harp:2:13: the axis 'Tim' is not declared: write axis Tim <= 2048;; did "
                        "you mean 'Time'?"));
  EXPECT_THAT(refusal_of_text("axis T <= 9;\naxis T <= 8;\nproducer x {T};"),
              HasSubstr("harp:2:6: 'T' is declared twice; the first time at harp:1"));
  EXPECT_THAT(refusal_of_text("axis T <= 9;\nproducer x {4};"),
              HasSubstr("harp:1:6: no producer of graph 'graph' follows the axis 'T'"));
  EXPECT_THAT(refusal_of_text("axis T <= 1; producer x {T};"), HasSubstr("a ceiling is 2 to"));
  EXPECT_THAT(refusal_of_text("axis T = 9 <= 8; producer x {T};"),
              HasSubstr("axis 'T' has the value 9 and the ceiling 8"));
  EXPECT_THAT(refusal_of_text("axis T; producer x {T};"),
              HasSubstr("expected '<=' and the largest"));
  EXPECT_THAT(refusal_of_text("axis T <= 9; producer x {0*T};"), HasSubstr("a factor is 1 to"));
  EXPECT_THAT(refusal_of_text("axis T <= 9; producer x {2*};"), HasSubstr("expected an axis"));
  EXPECT_THAT(refusal_of_text("axis T <= 9; producer x {T-9};"),
              HasSubstr("a tensor of shape {0}"));
  EXPECT_THAT(refusal_of_text("axis T <= 9; producer x {T}; layer r reshape({T}); cycle {x -> r;}"),
              HasSubstr("expected a whole number"));
}

TEST(Axes, WhatDependsOnAnAxisMustFollowIt) {
  const std::string head = "axis T <= 9; axis S <= 9; producer x {T, 4}; producer y {S, 4};";
  // Parameters are of one size.
  EXPECT_THAT(
      refusal_of_text("axis T <= 9; producer x {T, 4}; layer p position; cycle {x -> p;}"),
      HasSubstr("layer 'p' (position) owns parameters that depend on axis T: give it a size "
                "of its own, use position(rows=…)"));
  // A stride, a square and a sum of two axes are no multiples.
  EXPECT_THAT(refusal_of_text("axis T <= 9; producer x {1, T, 4}; layer p max_pool({2, 1});"
                              "cycle {x -> p;}"),
              HasSubstr("'p': extent 1 of its shape is no whole multiple of axis T"));
  EXPECT_THAT(refusal_of_text("axis T <= 9; producer x {T, T}; layer f flatten; cycle {x -> f;}"),
              HasSubstr("'f': extent 0"));
  EXPECT_THAT(refusal_of_text(head + "layer c concat; cycle {x, y -> c;}"),
              HasSubstr("'c': extent 0"));
  // What fits at the ceiling alone does not fit.
  EXPECT_THAT(refusal_of_text("axis T <= 9; producer x {T, 4}; layer r reshape({6, 6});"
                              "cycle {x -> r;}"),
              HasSubstr("(with T = 8)"));
  EXPECT_THAT(refusal_of_text("axis T <= 9; producer x {T, 4}; consumer o {9, 4}; cycle {x -> o;}"),
              HasSubstr("consumer 'o' wants {9, 4}, but 'x' has {8, 4} (with T = 8)"));
}

TEST(Axes, DataOfAnyLengthWithinTheCeilingResolvesAProducer) {
  const HarmonicGraph graph = tagger();
  EXPECT_EQ(graph.resolved_with({{"ids", {{17}, DType::kInt64}}}), graph);
  EXPECT_THAT(
      refusal([&] {
        (void)graph.resolved_with({{"ids", {{65}, DType::kInt64}}});
      }),
      HasSubstr("producer 'ids' takes batches of {T}, samples of {65} came: axis T is 1 to"));
  EXPECT_THAT(refusal([&] {
                (void)graph.resolved_with({{"ids", {{5}, DType::kFloat32}}});
              }),
              HasSubstr("producer 'ids' is declared as int64, its data is float32"));
}

TEST(AxisBinding, ReadsValuesOffShapesAndRefusesTwoLengths) {
  const HarmonicGraph graph = tagger();
  AxisBinding binding(graph.axes());
  const NamedExtents& ids = graph.named_extents("ids");
  const NamedExtents& tags = graph.named_extents("tags");
  binding.bind("producer 'ids'", {7}, {64}, ids);
  binding.bind("producer 'tags'", {8}, {65}, tags);
  EXPECT_EQ(binding.values(), (AxisValues{{"T", 7}}));
  EXPECT_EQ(shape_at({65, 8}, graph.named_extents("mix"), binding.values()), Shape({8, 8}));
  EXPECT_THAT(
      refusal([&] { binding.bind("producer 'tags'", {7}, {65}, tags); }),
      HasSubstr("that is T = 6, but producer 'ids' has T = 7; all tensors of a batch must"));
  EXPECT_NE(refusal([&] { binding.bind("producer 'ids'", {7, 1}, {64}, ids); }), "no error");
}

TEST(Axes, TheCeilingOfTheirNumberIsReached) {
  GraphBuilder builder("g");
  std::vector<Extent> shape;
  for (std::size_t i = 0; i < kMaxGraphAxes; ++i) {
    builder.axis(format("A{}", i), 3);
    shape.emplace_back(format("A{}", i));
  }
  builder.named_producer("x", shape).layer("h", "identity", {}, {"x"});
  EXPECT_EQ(builder.build().named_extents("h").size(), kMaxGraphAxes);
  builder.axis("more", 3);
  EXPECT_THAT(refusal([&] { (void)builder.build(); }), HasSubstr("has 17 axes; at most 16"));
}

}  // namespace
}  // namespace harmonics::inline in_graph
