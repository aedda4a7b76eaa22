#include "byte_alphabet.h"
#include "pre_tokenizer.h"
#include "replacement.h"
#include "word_splits.h"

namespace harmonics::inline in_text {
namespace {

/// Pieces by GPT-2's pattern, their bytes spelled in the alphabet of bytes.
class ByteLevel final : public PreTokenizer {
 public:
  explicit ByteLevel(const Section& section)
      : prefix_(section.flag("add_prefix_space")), words_(section.flag("use_regex", true)) {
    // Offsets are not told here, so trimming them says nothing.
    section.only({"add_prefix_space", "trim_offsets", "use_regex"});
  }

  void apply(Pieces& pieces) const override {
    if (prefix_) add_prefix(pieces);
    if (words_) {
      std::vector<Span> words;
      words.reserve(pieces.text.size() / 4);
      for (const Span span : pieces.spans) split_gpt2_words(pieces.text, span, words);
      pieces.spans = std::move(words);
    }
    spell(pieces);
  }

 private:
  static void add_prefix(Pieces& pieces) {
    std::string text;
    for (Span& span : pieces.spans) {
      const auto begin = static_cast<std::uint32_t>(text.size());
      if (pieces.text[span.begin] != ' ') text += ' ';
      text += pieces.piece(span);
      span = {begin, static_cast<std::uint32_t>(text.size())};
    }
    pieces.text = std::move(text);
  }

  static void spell(Pieces& pieces) {
    const auto& characters = byte_characters();
    std::string text;
    if (pieces.text.size() > kMaxReplacedBytes / 2) {  // ByteLevel upon ByteLevel
      fail(ErrorCode::kResourceExhausted, "a text of {} bytes is too long to be spelled in bytes",
           pieces.text.size());
    }
    text.reserve(pieces.text.size() + pieces.text.size() / 2);
    for (Span& span : pieces.spans) {
      const auto begin = static_cast<std::uint32_t>(text.size());
      for (const char c : pieces.piece(span)) text += characters[static_cast<unsigned char>(c)];
      span = {begin, static_cast<std::uint32_t>(text.size())};
    }
    pieces.text = std::move(text);
  }

  bool prefix_;
  bool words_;
};

}  // namespace

PreTokenizerPtr read_byte_level(const Section& section) {
  return std::make_unique<ByteLevel>(section);
}

}  // namespace harmonics::inline in_text
