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
    const std::uint64_t key = key_of(left, right);
    for (std::size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return {};
    }
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    key ^= key >> 31;
    key *= 0x9E3779B97F4A7C15ULL;
    return static_cast<std::size_t>(key >> 29) & mask_;
  }
  void insert(std::uint64_t key, Merge merge);

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

}  // namespace harmonics::inline in_text
