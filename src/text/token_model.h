// The third step: a piece into tokens of the vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "section.h"
#include "vocabulary.h"

namespace harmonics::inline in_text {

/// Never changes; many threads.
class TokenModel {
 public:
  explicit TokenModel(const Section& section) : vocabulary_(section, "vocab") {}
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  /// Appends the ids of one piece, which is not empty.
  virtual void append_ids(std::string_view piece, std::vector<std::int64_t>& out) const = 0;
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  /// The id of the token that a setting names, which must be in the vocabulary.
  [[nodiscard]] TokenId id_named(const Section& section, std::string_view key) const;

 private:
  Vocabulary vocabulary_;
};

using TokenModelPtr = std::unique_ptr<const TokenModel>;

/// Reads a section: WordPiece or BPE, by its type or, in files of old, by what it holds. Another
/// model is an Error.
[[nodiscard]] TokenModelPtr read_token_model(const Section& section);
[[nodiscard]] TokenModelPtr read_word_piece(const Section& section);
[[nodiscard]] TokenModelPtr read_bpe(const Section& section);

}  // namespace harmonics::inline in_text
