// The merges of byte-pair encoding: which two tokens become one, and which first.
#pragma once

#include <cstdint>
#include <vector>

#include "section.h"
#include "vocabulary.h"

namespace harmonics::inline in_text {

/// A hash table of pairs, built once. Many threads.
class Merges {
 public:
  struct Merge {
    std::uint32_t rank = kNone;  // smaller ones go first
    TokenId id = 0;              // what the two become
    [[nodiscard]] bool exists() const { return rank != kNone; }
  };

  /// Reads "merges" of a section: ["a b", …] or [["a", "b"], …]. The second half of a pair is
  /// written with `prefix`, which the token that they make lacks.
  Merges(const Section& section, const Vocabulary& vocabulary, std::string_view prefix);

  [[nodiscard]] Merge find(TokenId left, TokenId right) const {
    const std::uint32_t slot = slots_[slot_of(left, right)];
    if (slot == kEmpty) return {};
    return {slot & kRankMask, pairs_[slot & kRankMask].id};
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kEmpty = ~std::uint32_t{0};
  /// A slot holds a rank, and above it bits of the hash: few slots of other pairs are looked into.
  static constexpr int kRankBits = 22;
  static constexpr std::uint32_t kRankMask = (std::uint32_t{1} << kRankBits) - 1;

  struct Pair {
    TokenId left, right, id;
  };

  static std::uint64_t hash_of(TokenId left, TokenId right) {
    std::uint64_t key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
    key ^= key >> 31;
    return key * 0x9E3779B97F4A7C15ULL;
  }
  /// The slot of that pair, or the empty one where it would be.
  [[nodiscard]] std::size_t slot_of(TokenId left, TokenId right) const {
    const std::uint64_t hash = hash_of(left, right);
    const auto tag = static_cast<std::uint32_t>(hash >> 54);
    const std::size_t mask = slots_.size() - 1;
    for (auto at = static_cast<std::size_t>(hash >> 29) & mask;; at = (at + 1) & mask) {
      if (slots_[at] == kEmpty) return at;
      if (slots_[at] >> kRankBits != tag) continue;
      const Pair& pair = pairs_[slots_[at] & kRankMask];
      if (pair.left == left && pair.right == right) return at;
    }
  }
  void insert(const Pair& pair);

  std::vector<Pair> pairs_;  // by rank
  std::vector<std::uint32_t> slots_;
};

}  // namespace harmonics::inline in_text
