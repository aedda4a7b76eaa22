// From .harp text to tokens, and from a place in the text to an error that shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_graph {

/// A text with a name. Does not own the text.
struct HarpSource {
  std::string_view text;
  std::string_view origin;

  /// "origin:line"
  [[nodiscard]] std::string place(std::size_t offset) const;
  /// Counted from 1.
  [[nodiscard]] std::size_t line(std::size_t offset) const;
  /// Throws an Error: "origin:line:column: what", the line (clipped when long) and a caret.
  [[noreturn]] void refuse(std::size_t offset, std::string_view what,
                           ErrorCode code = ErrorCode::kInvalidArgument) const;
};

enum class TokenKind : std::uint8_t {
  kName,    ///< a word; may hold $i and $(i-1)
  kNumber,  ///< unsigned, as written
  kString,  ///< between quotes; `text` is without them and still escaped
  kSymbol,  ///< one of { } ( ) , ; = * / | + - -> <- <=
  kEnd,
};

/// A piece of the text; `text` points into the source.
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  std::size_t offset = 0;
};

/// All tokens, closed by one kEnd. Comments (// and #) and white space are dropped.
[[nodiscard]] std::vector<Token> harp_tokens(const HarpSource& source);

/// The content of a kString token with its escapes (\" \\ \n \t) resolved.
[[nodiscard]] std::string unescaped(const HarpSource& source, const Token& token);
/// `text` in quotes, escaped so that `unescaped` gives it back.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace harmonics::inline in_graph
