// Tokens that are found in a text before anything else is done to it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "normalizer.h"
#include "section.h"
#include "unicode.h"
#include "vocabulary.h"

namespace harmonics::inline in_text {

struct AddedToken {
  std::string content;
  std::int64_t id = 0;
  bool special = false;
  bool normalized = false;   // looked for in normalised text, and itself normalised
  bool single_word = false;  // only where no word goes on before or behind it
  bool strip_left = false;   // takes the spaces before it
  bool strip_right = false;
};

/// Finds the longest of several texts wherever one begins, from left to right. Many threads.
class TokenFinder {
 public:
  TokenFinder() = default;
  /// `tokens` outlive it; `texts[i]` is what is looked for in the place of tokens[i].
  void add(const AddedToken& token, std::string_view text);

  /// A stretch of a text: a token, or what lies between tokens (nullptr).
  struct Found {
    Span span;
    const AddedToken* token = nullptr;
  };
  [[nodiscard]] std::vector<Found> split(std::string_view text) const;

 private:
  struct Node {
    std::map<unsigned char, std::uint32_t> next;
    const AddedToken* token = nullptr;
  };
  [[nodiscard]] const AddedToken* longest_at(std::string_view text, std::size_t at,
                                             std::size_t& end) const;

  std::vector<Node> nodes_;
  bool begins_[256] = {};
};

/// All of a file. Never changes once read; many threads.
class AddedTokens {
 public:
  /// Reads "added_tokens" of the file. `normalizer` may be null. An id that clashes with the
  /// vocabulary's is an Error.
  AddedTokens(const Section& file, const Vocabulary& vocabulary, const Normalizer* normalizer);
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;

  [[nodiscard]] const TokenFinder& raw() const { return raw_; }
  [[nodiscard]] const TokenFinder& normalized() const { return normalized_; }
  [[nodiscard]] const AddedToken* by_id(std::int64_t id) const;
  [[nodiscard]] const AddedToken* by_content(std::string_view content) const;
  [[nodiscard]] std::int64_t largest_id() const { return largest_id_; }

 private:
  void read(const Section& item, const Vocabulary& vocabulary);

  std::map<std::int64_t, AddedToken> tokens_;
  std::map<std::string_view, const AddedToken*> by_content_;
  std::int64_t largest_id_ = -1;
  TokenFinder raw_;
  TokenFinder normalized_;
};

}  // namespace harmonics::inline in_text
