// The second step: text into pieces, none of which a token crosses.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "section.h"
#include "unicode.h"

namespace harmonics::inline in_text {

/// A text and the pieces of it that are left, in order; none is empty.
struct Pieces {
  std::string text;
  std::vector<Span> spans;
  /// The first piece begins where the whole input begins.
  bool at_start = true;

  [[nodiscard]] std::string_view piece(Span span) const {
    return std::string_view(text).substr(span.begin, span.size());
  }
};

/// Never changes; many threads. Texts are valid UTF-8 and stay so.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

/// Reads a section: BertPreTokenizer, ByteLevel, Split, Digits, Whitespace, WhitespaceSplit,
/// Punctuation, Metaspace or a Sequence of them. Another type is an Error.
[[nodiscard]] PreTokenizerPtr read_pre_tokenizer(const Section& section);
[[nodiscard]] PreTokenizerPtr read_byte_level(const Section& section);
[[nodiscard]] PreTokenizerPtr read_metaspace(const Section& section);
[[nodiscard]] PreTokenizerPtr read_split(const Section& section);

}  // namespace harmonics::inline in_text
