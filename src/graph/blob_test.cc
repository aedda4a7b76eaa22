#include <harmonics/graph/blob.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>

#include "random_graph_testing.h"

namespace harmonics::inline in_graph {
namespace {

using testing::HasSubstr;

struct Refusal {
  ErrorCode code = ErrorCode::kUnknown;
  std::string what = "no error";
};

Refusal refusal_of(ByteSpan bytes) {
  try {
    (void)decode_graph(bytes);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

// A graph that uses every field of the format.
HarmonicGraph everything() {
  GraphBuilder builder("every field");
  builder.add(ProducerNode{"h@1", Shape{4}, DType::kFloat64, 3});
  builder.producer("open", std::nullopt, DType::kInt64).producer("scalar", Shape{});
  LayerNode dense;
  dense.name = "dense";
  dense.inputs = {"h@1"};
  dense.ratio = Ratio{1, 2, "h@1"};
  dense.activation = "relu";
  dense.group = "a group";
  builder.add(dense);
  builder.layer("shaped", "reshape", {{"shape", Shape{2, -1}}}, {"dense"});
  builder.layer("drop", "dropout", {{"p", 0.1}}, {"shaped"});
  builder.layer("wide", "linear", {{"out", std::int64_t{-7}}, {"bias", std::string("text")}},
                {"drop"});
  builder.layer("sum", "add", {}, {"wide", "drop", "wide"});
  ConsumerNode out{"dense@2", "dense", "tanh", Shape{2}, 5};
  builder.add(out).consumer("plain", "sum").tap("mse", "dense", "scalar", 0.125);
  return builder.build();
}

TEST(Blob, EveryFieldSurvives) {
  const HarmonicGraph graph = everything();
  EXPECT_FALSE(graph.resolved());
  EXPECT_EQ(decode_graph(encode_graph(graph)), graph);
}

TEST(Blob, EmptyGraphSurvives) {
  EXPECT_EQ(decode_graph(encode_graph(HarmonicGraph())), HarmonicGraph());
}

TEST(Blob, RandomGraphsTheirPartsAndTheZooSurvive) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const HarmonicGraph graph = random_graph(seed);
    EXPECT_EQ(decode_graph(encode_graph(graph)), graph) << "seed " << seed;
    for (const HarmonicGraph& part : partition_graph(graph, 1 + seed % 5)) {
      const HarmonicGraph back = decode_graph(encode_graph(part));
      EXPECT_EQ(back, part) << "seed " << seed;
      EXPECT_EQ(back.parameter_count(), part.parameter_count());
    }
  }
  for (const std::string& name : zoo_names()) {
    EXPECT_EQ(decode_graph(encode_graph(zoo_graph(name))), zoo_graph(name)) << name;
  }
}

TEST(Blob, BytesAreTheDocumentedOnes) {
  // docs/formats/graph_blob.md spells this example out.
  const HarmonicGraph graph = GraphBuilder("g")
                                  .producer("x", Shape{4})
                                  .layer("h", "linear", {{"out", std::int64_t{2}}}, {"x"}, "relu")
                                  .build();
  EXPECT_EQ(to_hex(encode_graph(graph)),
            "48475246"
            "0100"
            "0100000067"
            "01000000"
            "0100000078"
            "01"
            "01000000"
            "0400000000000000"
            "00"
            "00000000"
            "01000000"
            "0100000068"
            "060000006c696e656172"
            "0400000072656c75"
            "00000000"
            "00"
            "01000000"
            "0100000078"
            "01000000"
            "030000006f7574"
            "00"
            "0200000000000000"
            "00000000"
            "00000000");
}

TEST(Blob, EveryCutOffBlobIsRefused) {
  const Bytes bytes = encode_graph(everything());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(refusal_of(ByteSpan(bytes).first(size)).code, ErrorCode::kDataLoss) << size;
  }
}

TEST(Blob, TrailingBytesForeignBytesAndOtherVersionsAreRefused) {
  Bytes bytes = encode_graph(everything());
  bytes.push_back(std::byte{0});
  EXPECT_THAT(refusal_of(bytes).what, HasSubstr("1 bytes follow the end of the graph"));
  bytes = encode_graph(everything());
  bytes[0] = std::byte{0};
  EXPECT_THAT(refusal_of(bytes).what, HasSubstr("these bytes are no graph"));
  bytes = encode_graph(everything());
  bytes[4] = std::byte{3};
  EXPECT_EQ(refusal_of(bytes).code, ErrorCode::kUnimplemented);
  EXPECT_THAT(refusal_of(bytes).what, HasSubstr("version 3, this program reads version 1 and 2"));
}

// Magic, version, name "g", and then what the test writes.
ByteWriter start() {
  ByteWriter out;
  out.raw(bytes_of("HGRF"));
  out.number(kGraphBlobVersion);
  out.text("g");
  return out;
}

TEST(Blob, CountsAreBoundedBeforeMemoryIsTaken) {
  ByteWriter fits = start();
  fits.number(std::uint32_t{50'000});
  EXPECT_THAT(refusal_of(fits.bytes()).what,
              HasSubstr("a count of 50000 cannot fit in the 0 bytes"));
  ByteWriter many = start();
  many.number(static_cast<std::uint32_t>(kMaxGraphNodes + 1));
  EXPECT_THAT(refusal_of(many.bytes()).what, HasSubstr("above the limit of 100000"));
  ByteWriter name = start();
  name.number(std::uint32_t{1});
  name.text(std::string(kMaxBoundaryNameLength + 1, 'a'));
  EXPECT_THAT(refusal_of(name.bytes()).what, HasSubstr("above the limit of 240"));
  ByteWriter axes = start();
  axes.number(std::uint32_t{1});
  axes.text("x");
  axes.number(std::uint8_t{1});
  axes.number(static_cast<std::uint32_t>(kMaxShapeAxes + 1));
  EXPECT_THAT(refusal_of(axes.bytes()).what, HasSubstr("above the limit of 64"));
}

TEST(Blob, WrongTagsAreRefused) {
  const auto producer = [](std::uint8_t has_shape, std::uint8_t dtype) {
    ByteWriter out = start();
    out.number(std::uint32_t{1});
    out.text("x");
    out.number(has_shape);
    out.number(dtype);
    out.number(std::uint32_t{0});
    return refusal_of(out.bytes()).what;
  };
  EXPECT_THAT(producer(2, 0), HasSubstr("a flag is 0 or 1, not 2"));
  EXPECT_THAT(producer(0, 9), HasSubstr("9 is no element type"));

  const auto attributes = [](std::uint8_t tag, int times) {
    ByteWriter out = start();
    out.number(std::uint32_t{0});
    out.number(std::uint32_t{1});
    for (const char* text : {"h", "linear", "", ""}) out.text(text);
    out.number(std::uint8_t{0});
    out.number(std::uint32_t{0});
    out.number(std::uint32_t{2});
    for (int i = 0; i < times; ++i) {
      out.text("out");
      out.number(tag);
      out.number(std::int64_t{1});
    }
    out.raw(Bytes(16));
    return refusal_of(out.bytes()).what;
  };
  EXPECT_THAT(attributes(4, 1), HasSubstr("4 is no kind of attribute"));
  EXPECT_THAT(attributes(0, 2), HasSubstr("the attribute 'out' of layer 'h' occurs twice"));
}

TEST(Blob, GraphsThatDoNotHoldTogetherAreRefusedByTheBuilder) {
  HarmonicGraph graph =
      GraphBuilder("g").producer("x", Shape{4}).layer("h", "flatten", {}, {"x"}).build();
  Bytes bytes = encode_graph(graph);
  const std::string type = "flatten";
  const auto at =
      std::search(bytes.begin(), bytes.end(), bytes_of(type).begin(), bytes_of(type).end());
  *at = std::byte{'g'};
  EXPECT_EQ(refusal_of(bytes).code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refusal_of(bytes).what, HasSubstr("layer 'h' has the unknown type 'glatten'"));
}

}  // namespace
}  // namespace harmonics::inline in_graph
