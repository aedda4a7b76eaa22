// Frozen and tied parameters: `trainable=false` and `tie=other.weight`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/graph/blob.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>

namespace harmonics::inline in_graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kText = R"(
  producer ids {6} int64;
  layer embed embedding(rows=10, width=4);
  layer norm layer_norm(trainable=false);
  layer head linear(10, bias=false, tie=embed.weight);
  consumer out;
  cycle { ids -> embed -> norm -> head -> out; }
)";

std::string refusal_of(const std::string& text) {
  try {
    (void)parse_harp(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string tied(const std::string& layer) {
  return "producer ids {6} int64; layer embed embedding(rows=10, width=4);" + layer +
         "cycle { ids -> embed -> head; }";
}

TEST(SharedParameters, AFrozenLayerTrainsNothing) {
  const HarmonicGraph graph = parse_harp(kText);
  for (const ParameterSpec& spec : graph.layer_shape(1).parameters) EXPECT_FALSE(spec.trainable);
  EXPECT_TRUE(graph.layer_shape(0).parameters[0].trainable);
}

TEST(SharedParameters, ATiedWeightIsItsOwners) {
  const HarmonicGraph graph = parse_harp(kText);
  const ParameterSpec& own = graph.layer_shape(0).parameters[0];
  const ParameterSpec& shared = graph.layer_shape(2).parameters[0];
  EXPECT_EQ(shared.tied_to, "embed.weight");
  EXPECT_FALSE(shared.away);
  EXPECT_EQ(shared.init, own.init);
  EXPECT_EQ(shared.scale, own.scale);
  EXPECT_EQ(parameter_name(graph.layers()[2], shared), "embed.weight");
  EXPECT_EQ(graph.parameter_count(), 40);
}

TEST(SharedParameters, TextAndBytesKeepThem) {
  const HarmonicGraph graph = parse_harp(kText);
  EXPECT_EQ(parse_harp(to_harp(graph)), graph);
  EXPECT_EQ(decode_graph(encode_graph(graph)), graph);
}

TEST(SharedParameters, BothPartsOfACutHoldATiedTensor) {
  const HarmonicGraph graph = parse_harp(kText);
  const std::vector<HarmonicGraph> parts = cut_graph(graph, std::vector<std::size_t>{0, 1, 2});
  const ParameterSpec& own = graph.layer_shape(0).parameters[0];
  const ParameterSpec& copy = parts[2].layer_shape(0).parameters[0];
  EXPECT_TRUE(copy.away);
  EXPECT_EQ(parameter_name(parts[2].layers()[0], copy), "embed.weight");
  EXPECT_EQ(copy.init, own.init);
  EXPECT_EQ(copy.scale, own.scale);
  EXPECT_TRUE(copy.trainable);
  for (const HarmonicGraph& part : parts) {
    EXPECT_EQ(parse_harp(to_harp(part)), part);
    EXPECT_EQ(decode_graph(encode_graph(part)), part);
    EXPECT_EQ(cut_graph(part, std::vector<std::size_t>{0})[0].layers(), part.layers());
  }
  // One part: both stay as they are.
  EXPECT_FALSE(cut_graph(graph, std::vector<std::size_t>{0})[0].layer_shape(2).parameters[0].away);
}

TEST(SharedParameters, AnOwnerThatLearnsSendsItsTensorAndTakesTheGradient) {
  const HarmonicGraph graph = parse_harp(R"(
    producer ids {6} int64; producer next {6} int64;
    layer embed embedding(rows=10, width=4);
    layer norm layer_norm;
    layer head linear(10, bias=false, tie=embed.weight);
    cycle { ids -> embed -> norm -> head; head <-(next_token)- next; })");
  const std::vector<HarmonicGraph> parts = cut_graph(graph, std::vector<std::size_t>{0, 1, 2});
  EXPECT_EQ(parts[0].consumers().back().name, "embed.weight@2");
  EXPECT_EQ(parts[0].consumers().back().gradient_slots, 1U);
  EXPECT_EQ(parts[0].layers().back().type, "weight");
  EXPECT_EQ(parts[0].parameter_count(), 40) << "one tensor";
  EXPECT_EQ(parts[2].parameter_count(), 0) << "which its owner keeps";
  EXPECT_EQ(parts[2].layer_shape(0).given_weight, 0);
  EXPECT_EQ(parts[2].layers()[0].inputs.back(), "embed.weight@2");
  for (const HarmonicGraph& part : parts) {
    EXPECT_EQ(parse_harp(to_harp(part)), part) << to_harp(part);
    EXPECT_EQ(decode_graph(encode_graph(part)), part);
    EXPECT_EQ(cut_graph(part, std::vector<std::size_t>{0})[0].layers(), part.layers());
  }
  EXPECT_THAT(refusal_of(tied("layer head linear(10, tie_input=true);")),
              HasSubstr("'tie_input' is true, belongs to a tie to another part"));
}

TEST(SharedParameters, TheEarliestPartHoldsWhatALaterOneOwns) {
  const HarmonicGraph graph = parse_harp(R"(
    producer ids {6} int64; producer next {6} int64;
    layer embed embedding(rows=10, width=4, tie=head.weight);
    layer norm layer_norm;
    layer head linear(10, bias=false);
    cycle { ids -> embed -> norm -> head; head <-(next_token)- next; })");
  const std::vector<HarmonicGraph> parts = cut_graph(graph, std::vector<std::size_t>{0, 1, 2});
  EXPECT_EQ(parts[0].consumers().back().name, "head.weight@2");
  EXPECT_EQ(parts[0].parameter_count(), 40) << "one tensor";
  EXPECT_EQ(parameter_name(parts[0].layers()[0], parts[0].layer_shape(0).parameters[0]),
            "head.weight");
  EXPECT_EQ(parts[2].parameter_count(), 0);
  EXPECT_EQ(parts[2].layer_shape(0).given_weight, 0);
  for (const HarmonicGraph& part : parts) {
    EXPECT_EQ(parse_harp(to_harp(part)), part) << to_harp(part);
    EXPECT_EQ(decode_graph(encode_graph(part)), part);
  }
  EXPECT_THAT(refusal_of(tied("layer head linear(10, tie_home=true);")),
              HasSubstr("'tie_home' is true, belongs to a tie to another part"));
}

TEST(SharedParameters, WhatATieMakesTravelIsKnown) {
  const auto crossing = [](const std::string& layers, const std::string& tap) {
    return tied_elements(parse_harp("producer x {4}; producer y {4};" + layers +
                                    "cycle { x -> a -> b -> c -> d; " + tap + " }"));
  };
  const std::string tap = "d <-(mse)- y;";
  const std::string forward =
      "layer a linear(4); layer b linear(4); layer c linear(4, tie=b.weight);"
      "layer d linear(4, tie=b.weight);";
  EXPECT_THAT(crossing(forward, tap), ElementsAre(0, 32, 16, 0));
  EXPECT_THAT(crossing(forward, ""), ElementsAre(0, 0, 0, 0)) << "nothing learns";
  EXPECT_THAT(crossing("layer a linear(4, tie=c.weight); layer b linear(4);"
                       "layer c linear(4); layer d linear(4);",
                       tap),
              ElementsAre(16, 16, 0, 0));
  EXPECT_THAT(crossing("layer a linear(4, tie=c.weight); layer b linear(4);"
                       "layer c linear(4, trainable=false); layer d linear(4);",
                       tap),
              ElementsAre(0, 0, 0, 0));
}

TEST(SharedParameters, ABalancedCutKeepsTiedLayersTogetherWhereItCan) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {4};
    layer a linear(4); layer b linear(4); layer c linear(4, tie=b.weight); layer d linear(4);
    cycle { x -> a -> b -> c -> d; })");
  const auto cuts = [&](std::size_t parts) {
    return balanced_first_layers(graph, std::vector<double>(parts, 1.0));
  };
  EXPECT_THAT(cuts(2), testing::Not(testing::Contains(2U)));
  EXPECT_EQ(cuts(3), std::vector<std::size_t>({0, 1, 3}));
  EXPECT_EQ(cuts(4), std::vector<std::size_t>({0, 1, 2, 3}));
}

TEST(SharedParameters, MistakesNameTheLayer) {
  EXPECT_THAT(refusal_of(tied("layer head linear(10, tie=embed.wieght);")),
              HasSubstr("layer 'head' (linear) cannot be tied to 'embed.wieght': there is no such "
                        "parameter; did you mean 'embed.weight'?"));
  EXPECT_THAT(refusal_of(tied("layer head linear(9, tie=embed.weight);")),
              HasSubstr("that is float32 of {10, 4}, this layer needs float32 of {9, 4}"));
  EXPECT_THAT(refusal_of(tied("layer head linear(10, tie=head.weight);")), HasSubstr("its own"));
  EXPECT_THAT(refusal_of(tied("layer head identity(tie=embed.weight);")),
              HasSubstr("it has no parameter 'weight'"));
  EXPECT_THAT(refusal_of(tied("layer head linear(10, tie=embed);")),
              HasSubstr("'tie' names a parameter, as in tie=embedding.weight"));
  EXPECT_THAT(refusal_of(tied("layer head linear(10, tie=\"embed.weight@0\");")),
              HasSubstr("'tie_start' and a tie to another part belong together"));
  EXPECT_THAT(refusal_of(tied("layer head linear(10, trainable=7);")),
              HasSubstr("'trainable' is true or false"));
  EXPECT_THAT(refusal_of("producer x {4}; layer a linear(4); layer b linear(4, tie=a.weight);"
                         "layer c linear(4, tie=b.weight); cycle { x -> a -> b -> c; }"),
              HasSubstr("that is tied itself, to 'a.weight': name that one"));
}

}  // namespace
}  // namespace harmonics::inline in_graph
