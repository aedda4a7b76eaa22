#include <harmonics/graph/export.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>

#include "export_layout.h"
#include "random_graph_testing.h"

namespace harmonics::inline in_graph {
namespace {

using testing::HasSubstr;
using testing::Not;

// What is wrong with an XML text as far as tags, entities and bytes go; empty when nothing is.
std::string xml_problem(std::string_view text) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '<') {
      const std::size_t end = text.find('>', at);
      if (end == std::string_view::npos) return "a tag is not closed";
      const std::string_view tag = text.substr(at + 1, end - at - 1);
      if (tag.find('<') != std::string_view::npos) return "a '<' inside a tag";
      if (tag.starts_with("/")) {
        if (open.empty() || open.back() != tag.substr(1)) return format("stray </{}>", tag);
        open.pop_back();
      } else if (!tag.ends_with("/")) {
        open.emplace_back(tag.substr(0, tag.find(' ')));
      }
      at = end + 1;
    } else {
      const std::string_view rest = text.substr(at);
      if (rest[0] == '>') return "a bare '>'";
      if (rest[0] == '&' && !rest.starts_with("&lt;") && !rest.starts_with("&gt;") &&
          !rest.starts_with("&amp;") && !rest.starts_with("&quot;")) {
        return "a bare '&'";
      }
      if (static_cast<unsigned char>(rest[0]) < 0x20 && rest[0] != '\n')
        return "a control character";
      ++at;
    }
  }
  return open.empty() ? "" : format("<{}> is not closed", open.back());
}

HarmonicGraph digits() { return zoo_graph("digits-mlp"); }

TEST(Svg, ShowsNamesTypesShapesParametersActivationsAndLosses) {
  const std::string svg = to_svg(digits());
  EXPECT_EQ(xml_problem(svg), "");
  for (const char* part : {">digits_mlp<", "3 layers · 17,226 parameters", ">image<",
                           "float32 {64}", ">fc1<", "linear, then relu {128}", "8,320 parameters",
                           ">cross_entropy<", ">prediction<", "stroke-dasharray"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
}

TEST(Svg, EveryGraphGivesWellFormedXmlTwiceTheSame) {
  for (const std::string& name : zoo_names()) {
    const std::string svg = to_svg(zoo_graph(name));
    EXPECT_EQ(xml_problem(svg), "") << name;
    EXPECT_EQ(svg, to_svg(zoo_graph(name))) << name;
  }
  RandomGraphOptions options;
  options.groups = true;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(xml_problem(to_svg(random_graph(seed, options))), "") << seed;
  }
  EXPECT_EQ(xml_problem(to_svg(HarmonicGraph())), "");
}

TEST(Svg, UnresolvedGraphsHaveNoShapes) {
  const std::string svg = to_svg(parse_harp("producer x; layer h linear(3); cycle { x -> h; }"));
  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("float32 of any shape"));
  EXPECT_THAT(svg, HasSubstr("shapes come from the data"));
  EXPECT_THAT(svg, Not(HasSubstr("{3}")));
}

TEST(Svg, TextsFromOutsideAreEscaped) {
  GraphBuilder builder("<script>\"&'\x01\xFF\xED\xA0\x80 \xC3\xA9");
  builder.producer("x", Shape{4}).group("</text><g>&\n").layer("h", "linear", {}, {"x"});
  const std::string svg = to_svg(builder.build());
  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&quot;&amp;'"));
  EXPECT_THAT(svg, HasSubstr("\xC3\xA9<"));  // a valid character stays
  EXPECT_THAT(svg, HasSubstr("&lt;/text&gt;&lt;g&gt;&amp;"));
  EXPECT_THAT(svg, Not(HasSubstr("\xFF")));
  EXPECT_THAT(svg, Not(HasSubstr("\xED\xA0\x80")));  // half of a surrogate pair
}

TEST(Svg, LongNamesAreClippedButKeptInTheTooltip) {
  const std::string name = "a" + std::string(150, 'b') + "c";
  const std::string svg = to_svg(GraphBuilder("g").producer(name, Shape{4}).build());
  EXPECT_THAT(svg, HasSubstr("<title>" + name + "</title>"));
  EXPECT_THAT(svg, Not(HasSubstr(">" + name + "</text>")));
}

TEST(Svg, TheActivationStandsInTheBoxBehindItsLayer) {
  const std::string svg = to_svg(
      parse_harp("producer x {4}; producer y {4}; layer s add; cycle { x, y -(relu)-> s; }"));
  EXPECT_THAT(svg, HasSubstr("add, then relu {4}"));
  EXPECT_THAT(to_svg(parse_harp("producer x {4}; layer h; consumer y; cycle { x -> h; "
                                "h -(softmax)-> y; }")),
              HasSubstr(">softmax<"));
}

TEST(Svg, FramesGroupsThatStandAlone) {
  const std::string framed = to_svg(parse_harp(
      "producer x {4}; group front { layer a; layer b; } layer c; cycle { x -> a -> b -> c; }"));
  EXPECT_THAT(framed, HasSubstr(">front</text>"));
  // b is enclosed by a and c: a frame would claim it for the group.
  const std::string halo = to_svg(parse_harp(
      "producer x {4}; layer b; group ends { layer a; layer c; } cycle { x -> a -> b -> c; }"));
  EXPECT_THAT(halo, Not(HasSubstr(">ends</text>")));
}

TEST(Svg, TooManyBoxesAreAnError) {
  const auto chain = [](std::size_t layers) {
    return parse_harp(
        format("producer x {{1}}; layer h0 identity; repeat {0} as i {{ layer h$i identity; }}"
               "cycle {{ x -> h0; repeat {0} as i {{ -> h$i; }} }}",
               layers));
  };
  EXPECT_EQ(xml_problem(to_svg(chain(kMaxSvgBoxes - 2))), "");
  try {
    (void)to_svg(chain(kMaxSvgBoxes - 1));
    ADD_FAILURE() << "a graph over the limit was drawn";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.what(), HasSubstr("20000 boxes"));
  }
  // Bends count: a third of the boxes, but each arrow of x to the sum at the end spans them all.
  EXPECT_THROW(
      (void)to_svg(parse_harp(
          "producer x {1}; layer h0 identity; repeat 6000 as i { layer h$i identity; }"
          "layer s add; cycle { x -> h0; repeat 6000 as i { -> h$i; } -> s; x, x, x -> s; }")),
      Error);
}

// --- the layout ---

Layout layout_of(const HarmonicGraph& graph) {
  const BoxGraph drawn = boxes_of(graph);
  return lay_out(drawn, std::vector<BoxSize>(drawn.boxes.size(), BoxSize{100, 40}));
}

TEST(Layout, BoxesDoNotOverlapAndLinksLeadDown) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Layout layout = layout_of(random_graph(seed));
    for (const auto& rank : layout.ranks) {
      for (std::size_t i = 1; i < rank.size(); ++i) {
        EXPECT_GT(layout.places[rank[i]].left(), layout.places[rank[i - 1]].right()) << seed;
      }
    }
    for (const PlacedArrow& arrow : layout.arrows) {
      for (std::size_t i = 1; i < arrow.path.size(); ++i) {
        EXPECT_EQ(layout.places[arrow.path[i]].rank, layout.places[arrow.path[i - 1]].rank + 1);
        EXPECT_GT(layout.places[arrow.path[i]].y, layout.places[arrow.path[i - 1]].bottom());
      }
    }
    for (const PlacedBox& place : layout.places) {
      EXPECT_GE(place.left(), -1e-6);
      EXPECT_LE(place.right(), layout.width + 1e-6);
      EXPECT_LE(place.bottom(), layout.height + 1e-6);
    }
  }
}

TEST(Layout, AChainIsAStraightColumn) {
  const Layout layout =
      layout_of(parse_harp("producer x {4}; layer h0; repeat 30 as i { layer h$i; }"
                           "cycle { x -> h0; repeat 30 as i { -> h$i; } }"));
  EXPECT_EQ(layout.ranks.size(), 32U);
  for (const PlacedBox& place : layout.places) EXPECT_DOUBLE_EQ(place.x, layout.places[0].x);
}

TEST(Layout, ATargetStandsRightAboveItsLoss) {
  const Layout layout = layout_of(digits());
  const BoxGraph drawn = boxes_of(digits());
  for (const Arrow& arrow : drawn.arrows) {
    if (!arrow.is_target) continue;
    EXPECT_EQ(layout.places[arrow.from].rank + 1, layout.places[arrow.to].rank);
  }
}

TEST(Boxes, DigitsAreGrouped) {
  EXPECT_EQ(grouped_digits(0), "0");
  EXPECT_EQ(grouped_digits(999), "999");
  EXPECT_EQ(grouped_digits(1'000), "1,000");
  EXPECT_EQ(grouped_digits(-123'456), "-123,456");
  EXPECT_EQ(grouped_digits(1'234'567), "1,234,567");
}

// --- Graphviz ---

TEST(Dot, HoldsNodesLinksAndClusters) {
  const std::string dot = to_dot(parse_harp(R"(
    harmonic "say \"hi\"" {
      producer x {4}; producer t {4};
      group "a \"b\"" { layer h; }
      consumer y;
      cycle { x -(relu)-> h -> y; h <-(mse * 0.5)- t; }
    })"));
  EXPECT_EQ(dot, R"(digraph "say \"hi\"" {
  node [style="filled,rounded", fontname="Helvetica", fontsize=11];
  edge [color="#8794a5", fontname="Helvetica", fontsize=10];
  n0 [label="x\nfloat32 {4}", shape=cds, fillcolor="#d8f0ea", color="#3f8f7f"];
  n1 [label="t\nfloat32 {4}", shape=cds, fillcolor="#d8f0ea", color="#3f8f7f"];
  n3 [label="y", shape=cds, fillcolor="#e2efd6", color="#6a9440"];
  n4 [label="mse\nweight 0.5", shape=ellipse, fillcolor="#fdeccc", color="#c48a1f"];
  subgraph cluster_0 {
    label="a \"b\""; style="filled,rounded"; color="#eef2f8"; fontname="Helvetica"; fontsize=10;
    n2 [label="h\nlinear, then relu {4}\n20 parameters", shape=box, fillcolor="#ffffff", color="#6b7f99"];
  }
  n0 -> n2;
  n2 -> n3;
  n2 -> n4;
  n1 -> n4 [style=dashed];
}
)");
}

}  // namespace
}  // namespace harmonics::inline in_graph
