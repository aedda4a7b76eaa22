#include <harmonics/custody/records.h>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

#include "custody_testing.h"

namespace harmonics::inline in_custody {
namespace {

Digest numbered(unsigned number) {
  Digest digest;
  digest.fill(static_cast<std::byte>(number));
  return digest;
}

Link full_link() {
  Link link;
  link.run = numbered(1);
  link.graph = numbered(2);
  link.passage = {"hidden@1", Direction::kBackward, 5, 3};
  link.sequence = 11;
  link.dtype = 4;
  link.shape = {256, 1024};
  link.root = numbered(3);
  link.inputs = {{LinkInput::Source::kForward, "a", numbered(4)},
                 {LinkInput::Source::kData, "b", numbered(5)}};
  link.weights = numbered(6);
  link.weights_step = 2;
  link.previous = numbered(7);
  link.proof = numbered(8);
  return link;
}

Head full_head() {
  Head head;
  head.run = numbered(1);
  head.stage = "part0";
  head.number = 9;
  head.closing = true;
  head.entries = 77;
  head.log_root = numbered(2);
  head.previous = numbered(3);
  head.flows = {{"a", Direction::kForward, true, 4, numbered(4)},
                {"a", Direction::kBackward, false, 4, numbered(5)}};
  head.seen = {{"part1", 8, numbered(6)}};
  return head;
}

// Cut short, followed by another byte, or with any bit flipped, bytes are malformed or another
// record: never the same one.
template <typename Record, typename Decode>
void expect_one_encoding(const Record& record, Decode decode) {
  const Bytes bytes = encode(record);
  ASSERT_EQ(decode(bytes), record);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(breach_of([&] { (void)decode(ByteSpan(bytes).first(size)); }), Breach::kMalformed);
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(breach_of([&] { (void)decode(longer); }), Breach::kMalformed);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    try {
      const Record other = decode(flipped);
      EXPECT_FALSE(other == record) << bit;
      EXPECT_EQ(encode(other), flipped) << bit;
    } catch (const CustodyError& error) {
      EXPECT_EQ(error.breach(), Breach::kMalformed);
    }
  }
}

TEST(Records, HaveExactlyOneEncoding) {
  expect_one_encoding(full_link(), [](ByteSpan b) { return decode_link(b); });
  expect_one_encoding(full_head(), [](ByteSpan b) { return decode_head(b); });
  expect_one_encoding(Receipt{{"x", Direction::kForward, 1, 2}, 3, numbered(1), numbered(2)},
                      [](ByteSpan b) { return decode_receipt(b); });
  expect_one_encoding(WeightMark{6, numbered(1)}, [](ByteSpan b) { return decode_weight_mark(b); });
  expect_one_encoding(LayerMark{6, 2, {{"dense", numbered(1)}, {"act", numbered(2)}}},
                      [](ByteSpan b) { return decode_layer_mark(b); });
  expect_one_encoding(line_opening(line_keys(3)), [](ByteSpan b) { return decode_opening(b); });
}

TEST(Records, ListsMustBeSorted) {
  Link link = full_link();
  std::swap(link.inputs[0], link.inputs[1]);
  EXPECT_EQ(breach_of([&] { (void)decode_link(encode(link)); }), Breach::kMalformed);
  link = full_link();
  link.inputs[1] = link.inputs[0];
  EXPECT_EQ(breach_of([&] { (void)decode_link(encode(link)); }), Breach::kMalformed);
}

TEST(Records, CountsAreBounded) {
  Link link = full_link();
  link.shape.assign(kMaxLinkAxes, 1);
  EXPECT_EQ(decode_link(encode(link)), link);
  link.shape.push_back(1);
  EXPECT_EQ(breach_of([&] { (void)decode_link(encode(link)); }), Breach::kMalformed);
  link = full_link();
  link.inputs.clear();
  for (unsigned i = 0; i < kMaxLinkInputs; ++i) {
    link.inputs.push_back({LinkInput::Source::kForward, format("b{:05}", i), numbered(1)});
  }
  EXPECT_EQ(decode_link(encode(link)), link);
  link.inputs.push_back({LinkInput::Source::kForward, "c", numbered(1)});
  EXPECT_EQ(breach_of([&] { (void)decode_link(encode(link)); }), Breach::kMalformed);
  Head head = full_head();
  head.stage.assign(kMaxCustodyName + 1, 's');
  EXPECT_EQ(breach_of([&] { (void)decode_head(encode(head)); }), Breach::kMalformed);
}

TEST(Records, KindsNeverShareADigest) {
  const Bytes bytes = encode(full_link());
  const std::set<Digest> digests = {link_digest(bytes), receipt_digest(bytes), head_digest(bytes),
                                    weight_mark_digest(bytes), opening_digest(bytes)};
  EXPECT_EQ(digests.size(), 5u);
  EXPECT_NE(signed_text(kLinkPurpose, numbered(1)), signed_text(kHeadPurpose, numbered(1)));
}

// The bytes of a known link: a change of the format must show.
TEST(Records, TheFormatNeverDrifts) {
  EXPECT_EQ(digest_text(link_digest(encode(full_link()))),
            "3d4fc6b574450db4e88bc9b705cf548c453962a97e5d31cff91be2c8bfe4bde0");
  EXPECT_EQ(digest_text(head_digest(encode(full_head()))),
            "bb7b7f62bf19cf828ba3d44b2412453ff1b88fd719636fb57e798c100e4ad548");
}

TEST(Opening, NamesMustBeUniqueAndKnown) {
  const std::vector<SigningKey> keys = line_keys(2);
  Opening opening = line_opening(keys);
  opening.boundaries[0].to = "nobody";
  EXPECT_THROW((void)checked_opening(opening), Error);
  opening = line_opening(keys);
  opening.stages[1].stage = opening.stages[0].stage;
  EXPECT_THROW((void)checked_opening(opening), Error);
  opening = line_opening(keys);
  opening.boundaries[0].to = opening.boundaries[0].from;
  EXPECT_THROW((void)checked_opening(opening), Error);
  opening = line_opening(keys);
  opening.stages[0].signer = "../x";
  EXPECT_THROW((void)checked_opening(opening), Error);
  EXPECT_THROW((void)checked_opening({}), Error);
  EXPECT_EQ(line_opening(keys).boundary("hidden@2"), nullptr);
}

TEST(Opening, SaysThatARunIsReproducibleInOneByte) {
  const Opening plain = line_opening(line_keys(2));
  Opening same = plain;
  same.reproducible = true;
  Bytes bytes = encode(plain);
  bytes.push_back(std::byte{1});
  EXPECT_EQ(encode(same), bytes);
  EXPECT_EQ(decode_opening(bytes), same);
  EXPECT_NE(opening_digest(encode(plain)), opening_digest(bytes)) << "it is signed";
  bytes.back() = std::byte{2};
  EXPECT_EQ(breach_of([&] { (void)decode_opening(bytes); }), Breach::kMalformed);
}

}  // namespace
}  // namespace harmonics::inline in_custody
