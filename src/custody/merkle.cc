#include <harmonics/custody/merkle.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <harmonics/base/error.h>

#include "leaf_pair.h"

namespace harmonics::inline in_custody {
namespace {

constexpr std::byte kLeafMark[] = {std::byte{0}};
constexpr std::byte kNodeMark[] = {std::byte{1}};

}  // namespace

Digest merkle_leaf(ByteSpan bytes) { return Sha256().update(kLeafMark).update(bytes).finish(); }

Digest merkle_node(const Digest& left, const Digest& right) {
  return Sha256().update(kNodeMark).update(left).update(right).finish();
}

void MerkleTree::append(const Digest& leaf) {
  peaks_.push_back(leaf);
  // As many full subtrees merge as the size has trailing ones.
  for (std::uint64_t ones = size_; (ones & 1) != 0; ones >>= 1) {
    const Digest right = peaks_.back();
    peaks_.pop_back();
    peaks_.back() = merkle_node(peaks_.back(), right);
  }
  ++size_;
}

Digest MerkleTree::root() const {
  if (peaks_.empty()) return sha256({});
  Digest root = peaks_.back();
  for (std::size_t i = peaks_.size() - 1; i-- > 0;) root = merkle_node(peaks_[i], root);
  return root;
}

MerkleTree MerkleTree::from_peaks(std::uint64_t size, std::vector<Digest> peaks) {
  if (static_cast<std::size_t>(std::popcount(size)) != peaks.size()) {
    fail(ErrorCode::kDataLoss, "a log of {} entries has {} subtrees, not {}", size,
         std::popcount(size), peaks.size());
  }
  MerkleTree tree;
  tree.size_ = size;
  tree.peaks_ = std::move(peaks);
  return tree;
}

Digest tensor_root(ByteSpan bytes) {
  MerkleTree tree;
  while (bytes.size() >= 2 * kTensorLeafBytes && has_leaf_pair()) {
    const auto pair = merkle_leaf_pair(bytes.first<kTensorLeafBytes>(),
                                       bytes.subspan<kTensorLeafBytes, kTensorLeafBytes>());
    for (const Digest& leaf : pair) tree.append(leaf);
    bytes = bytes.subspan(2 * kTensorLeafBytes);
  }
  while (!bytes.empty()) {
    const ByteSpan leaf = bytes.first(std::min(kTensorLeafBytes, bytes.size()));
    tree.append(merkle_leaf(leaf));
    bytes = bytes.subspan(leaf.size());
  }
  return tree.root();
}

}  // namespace harmonics::inline in_custody
