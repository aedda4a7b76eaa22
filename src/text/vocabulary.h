// Tokens by text and by id.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
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

  [[nodiscard]] std::optional<TokenId> find(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }
  /// The token of an id, or nothing for one that is not taken.
  [[nodiscard]] const std::string* token(std::int64_t id) const;
  /// One more than the largest id.
  [[nodiscard]] std::size_t size() const { return tokens_.size(); }

 private:
  std::vector<const std::string*> tokens_;  // by id
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, TokenId> ids_;
};

/// Throws unless `token` is valid UTF-8 of at most kMaxTokenBytes.
void check_token(const Section& section, std::string_view token);

}  // namespace harmonics::inline in_text
