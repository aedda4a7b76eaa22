// Merkle trees after RFC 6962: the root of a tensor's bytes, and of a stage's log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/digest.h>

namespace harmonics::inline in_custody {

/// Bytes of a tensor under one leaf of its tree; the last leaf may be shorter.
inline constexpr std::size_t kTensorLeafBytes = std::size_t{64} << 10;

/// SHA-256 of 0x00 and the bytes of the leaf.
[[nodiscard]] Digest merkle_leaf(ByteSpan bytes);
/// SHA-256 of 0x01 and both children.
[[nodiscard]] Digest merkle_node(const Digest& left, const Digest& right);

/// A tree to which leaves are only ever appended. Keeps one digest per level, whatever its size. A
/// value; one thread.
class MerkleTree {
 public:
  void append(const Digest& leaf);
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// The root over all leaves so far; of an empty tree, the digest of no bytes.
  [[nodiscard]] Digest root() const;

  /// Roots of the full subtrees from the largest to the smallest: all that there is to save.
  [[nodiscard]] const std::vector<Digest>& peaks() const { return peaks_; }
  /// The tree that had these peaks; a number of them that does not fit `size` is an Error.
  [[nodiscard]] static MerkleTree from_peaks(std::uint64_t size, std::vector<Digest> peaks);

 private:
  std::uint64_t size_ = 0;
  std::vector<Digest> peaks_;
};

/// The root over leaves of kTensorLeafBytes.
[[nodiscard]] Digest tensor_root(ByteSpan bytes);

}  // namespace harmonics::inline in_custody
