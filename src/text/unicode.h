// What Unicode says about characters, in the versions that the `tokenizers` package speaks: ids are
// part of a trained model, so a character that got its category later counts as it did when the
// model learned. In a build without ICU (HARMONICS_WITH_TEXT=OFF) every function here is an Error
// (kUnimplemented) that names the option.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_text {

/// Bytes [begin, end) of a text.
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

/// How the patterns of byte-level tokenizers sort characters (Unicode 14).
enum class CharKind : std::uint8_t { kOther, kLetter, kNumber, kSpace };
[[nodiscard]] CharKind kind_of(char32_t point);

[[nodiscard]] bool is_space(char32_t point);    // White_Space
[[nodiscard]] bool is_numeric(char32_t point);  // Nd, Nl, No
[[nodiscard]] bool is_word(char32_t point);     // what \w is: letters, marks, digits, connectors
[[nodiscard]] bool is_mark(char32_t point);     // Mn, Mc, Me (Unicode 9)

// As BERT's normaliser and pre-tokeniser see them (Unicode 8).
[[nodiscard]] bool is_bert_punctuation(char32_t point);
[[nodiscard]] bool is_bert_control(char32_t point);
[[nodiscard]] bool is_bert_accent(char32_t point);

/// Appends the lower case of one character, which may be two.
void append_lower(std::string& out, char32_t point);

enum class NormalForm { kC, kD, kKC, kKD };
/// Appends `text` in a normal form (Unicode 9).
void append_normal_form(std::string& out, NormalForm form, std::string_view text);

/// A regular expression in the spelling of tokenizer.json. One thread per call, many calls at once.
class Pattern {
 public:
  /// A text that is no pattern, or one whose meaning differs between dialects, is an Error.
  explicit Pattern(std::string_view source);
  ~Pattern();
  Pattern(Pattern&&) noexcept;

  /// Where it matches, from left to right. Work beyond a stated bound is an Error
  /// (kResourceExhausted): the pattern backtracks too much.
  [[nodiscard]] std::vector<Span> matches(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace harmonics::inline in_text
