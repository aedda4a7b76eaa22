#include <harmonics/custody/merkle.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

#include "leaf_pair.h"

namespace harmonics::inline in_custody {
namespace {

// The definition in RFC 6962, section 2.1, as it stands there: split at the largest power of two.
Digest by_definition(std::span<const Digest> leaves) {
  if (leaves.empty()) return sha256({});
  if (leaves.size() == 1) return leaves[0];
  const std::size_t split = std::bit_floor(leaves.size() - 1);
  return merkle_node(by_definition(leaves.first(split)), by_definition(leaves.subspan(split)));
}

std::vector<Digest> some_leaves(std::size_t count) {
  std::vector<Digest> leaves;
  for (std::size_t i = 0; i < count; ++i) {
    leaves.push_back(merkle_leaf(bytes_of(std::to_string(i))));
  }
  return leaves;
}

TEST(Merkle, EverySizeHasTheRootOfTheDefinition) {
  const std::vector<Digest> leaves = some_leaves(130);
  MerkleTree tree;
  for (std::size_t size = 0; size <= leaves.size(); ++size) {
    EXPECT_EQ(tree.root(), by_definition(std::span(leaves).first(size))) << size;
    EXPECT_EQ(tree.size(), size);
    if (size < leaves.size()) tree.append(leaves[size]);
  }
}

// The first three roots of the test vectors that Certificate Transparency implementations share:
// leaves "", 0x00, 0x10.
TEST(Merkle, GivesTheKnownRootsOfCertificateTransparency) {
  MerkleTree tree;
  tree.append(merkle_leaf({}));
  EXPECT_EQ(digest_text(tree.root()),
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
  const std::byte zero[] = {std::byte{0}};
  tree.append(merkle_leaf(zero));
  EXPECT_EQ(digest_text(tree.root()),
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125");
  const std::byte ten[] = {std::byte{0x10}};
  tree.append(merkle_leaf(ten));
  EXPECT_EQ(digest_text(tree.root()),
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77");
}

TEST(Merkle, ATreeGoesOnFromItsPeaks) {
  const std::vector<Digest> leaves = some_leaves(40);
  MerkleTree whole;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    MerkleTree copy = MerkleTree::from_peaks(whole.size(), whole.peaks());
    whole.append(leaves[i]);
    copy.append(leaves[i]);
    EXPECT_EQ(copy.root(), whole.root());
  }
  EXPECT_THROW((void)MerkleTree::from_peaks(
                   3, whole.peaks().size() == 2 ? std::vector<Digest>{} : std::vector<Digest>(1)),
               Error);
}

TEST(Merkle, TheRootOfATensorCoversEveryByteAndItsLength) {
  Bytes bytes(3 * kTensorLeafBytes + 5, std::byte{1});
  const Digest root = tensor_root(bytes);
  for (const std::size_t at : {std::size_t{0}, kTensorLeafBytes - 1, kTensorLeafBytes,
                               2 * kTensorLeafBytes + 7, bytes.size() - 1}) {
    bytes[at] ^= std::byte{1};
    EXPECT_NE(tensor_root(bytes), root) << at;
    bytes[at] ^= std::byte{1};
  }
  EXPECT_EQ(tensor_root(bytes), root);
  EXPECT_NE(tensor_root(ByteSpan(bytes).first(bytes.size() - 1)), root);
  const std::vector<Digest> leaves = {
      merkle_leaf(ByteSpan(bytes).first(kTensorLeafBytes)),
      merkle_leaf(ByteSpan(bytes).subspan(kTensorLeafBytes, kTensorLeafBytes)),
      merkle_leaf(ByteSpan(bytes).subspan(2 * kTensorLeafBytes, kTensorLeafBytes)),
      merkle_leaf(ByteSpan(bytes).subspan(3 * kTensorLeafBytes))};
  EXPECT_EQ(root, by_definition(leaves));
  EXPECT_EQ(tensor_root({}), sha256({}));
}

TEST(Merkle, TwoLeavesAtOnceAreTheSameAsOneByOne) {
  if (!has_leaf_pair()) {
    EXPECT_THROW((void)merkle_leaf_pair(FullLeaf(Bytes(kTensorLeafBytes)),
                                        FullLeaf(Bytes(kTensorLeafBytes))),
                 Error);
    GTEST_SKIP() << "this processor has no SHA-256 instructions";
  }
  Random random(1, "leaf pair");
  Bytes bytes(2 * kTensorLeafBytes + 16);
  for (int round = 0; round < 20; ++round) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    // Leaves lie wherever a tensor lies, and in either order.
    const ByteSpan pair = ByteSpan(bytes).subspan(round % 16, 2 * kTensorLeafBytes);
    const auto left = pair.first<kTensorLeafBytes>();
    const auto right = pair.last<kTensorLeafBytes>();
    const std::array<Digest, 2> expected = {merkle_leaf(left), merkle_leaf(right)};
    EXPECT_EQ(merkle_leaf_pair(left, right), expected) << round;
    EXPECT_EQ(merkle_leaf_pair(right, left), (std::array{expected[1], expected[0]})) << round;
  }
}

TEST(Merkle, TensorsOfAnyNumberOfLeavesHaveTheRootOfTheDefinition) {
  Random random(2, "tensor root");
  Bytes bytes(6 * kTensorLeafBytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  for (const std::size_t leaves : {1, 2, 3, 4, 5, 6}) {
    for (const std::size_t less : {0, 1, 1000}) {
      const ByteSpan tensor = ByteSpan(bytes).first(leaves * kTensorLeafBytes - less);
      std::vector<Digest> digests;
      for (std::size_t at = 0; at < tensor.size(); at += kTensorLeafBytes) {
        digests.push_back(
            merkle_leaf(tensor.subspan(at, std::min(kTensorLeafBytes, tensor.size() - at))));
      }
      EXPECT_EQ(tensor_root(tensor), by_definition(digests)) << leaves << " leaves less " << less;
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_custody
