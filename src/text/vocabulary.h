// Tokens by text and by id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "section.h"

namespace harmonics::inline in_text {

using TokenId = std::int32_t;

/// Never changes once read; many threads. Texts are valid UTF-8; ids are unique, below
/// kMaxVocabulary and may have gaps.
class Vocabulary {
 public:
  /// Reads {"token": id, …} at `key` of a section.
  Vocabulary(const Section& section, std::string_view key);

  [[nodiscard]] std::optional<TokenId> find(std::string_view token) const;
  /// The token of an id, or nothing for one that is not taken. Valid as long as this lives.
  [[nodiscard]] std::optional<std::string_view> token(std::int64_t id) const;
  /// One more than the largest id.
  [[nodiscard]] std::size_t size() const { return lengths_.size(); }

 private:
  static constexpr std::uint16_t kFree = ~std::uint16_t{0};
  static constexpr TokenId kNobody = -1;

  [[nodiscard]] std::string_view text(std::size_t id) const {
    return std::string_view(texts_).substr(starts_[id], lengths_[id]);
  }
  /// The slot of the hash table with that token, or the empty one where it would be.
  [[nodiscard]] std::size_t slot_of(std::string_view token) const;

  std::string texts_;  // one after the other
  // Of a token within all of them, by id.
  std::vector<std::uint32_t> starts_;
  std::vector<std::uint16_t> lengths_;
  std::vector<TokenId> slots_;
};

/// Throws unless `token` is valid UTF-8 of at most kMaxTokenBytes.
void check_token(const Section& section, std::string_view token);

}  // namespace harmonics::inline in_text
