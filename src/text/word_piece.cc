#include <algorithm>

#include <harmonics/text/tokenizer.h>

#include "token_model.h"
#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

constexpr std::int64_t kMaxWordCharacters = 1 << 16;

/// The longest token that begins a word, then the longest that continues it, and so on; a word that
/// cannot be spelled to its end is the unknown token.
class WordPiece final : public TokenModel {
 public:
  explicit WordPiece(const Section& section);
  void append_ids(std::string_view piece, std::vector<std::int64_t>& out) const override;

 private:
  // The longest token that `rest` begins with, and its bytes in `rest`; 0 bytes for none.
  struct Found {
    TokenId id = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Found longest(std::string_view rest, bool continues) const;

  TokenId unknown_;
  std::string prefix_;
  std::size_t max_characters_;
  std::size_t longest_token_ = 0;  // in bytes, without the prefix
};

WordPiece::WordPiece(const Section& section)
    : TokenModel(section),
      unknown_(id_named(section, "unk_token")),
      prefix_(section.text("continuing_subword_prefix")),
      max_characters_(
          static_cast<std::size_t>(section.count("max_input_chars_per_word", kMaxWordCharacters))) {
  section.only({"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  for (std::size_t id = 0; id < vocabulary().size(); ++id) {
    const auto token = vocabulary().token(static_cast<std::int64_t>(id));
    if (token) longest_token_ = std::max(longest_token_, token->size());
  }
}

WordPiece::Found WordPiece::longest(std::string_view rest, bool continues) const {
  std::size_t bytes = std::min(rest.size(), longest_token_);
  while (bytes < rest.size() && (static_cast<unsigned char>(rest[bytes]) & 0xC0) == 0x80) --bytes;
  std::string spelled;
  if (continues) spelled = prefix_;
  spelled += rest.substr(0, bytes);
  const std::size_t before = continues ? prefix_.size() : 0;
  while (bytes > 0) {
    const std::string_view tried = std::string_view(spelled).substr(0, before + bytes);
    if (const auto id = vocabulary().find(tried)) return {*id, bytes};
    do {
      --bytes;
    } while (bytes > 0 && (static_cast<unsigned char>(rest[bytes]) & 0xC0) == 0x80);
  }
  return {};
}

void WordPiece::append_ids(std::string_view piece, std::vector<std::int64_t>& out) const {
  if (piece.size() <= max_characters_ || point_count(piece) <= max_characters_) {
    const std::size_t before = out.size();
    std::size_t at = 0;
    while (at < piece.size()) {
      const Found found = longest(piece.substr(at), at > 0);
      if (found.bytes == 0) break;
      out.push_back(found.id);
      at += found.bytes;
    }
    if (at == piece.size()) return;
    out.resize(before);
  }
  out.push_back(unknown_);
}

}  // namespace

TokenModelPtr read_word_piece(const Section& section) {
  return std::make_unique<WordPiece>(section);
}

TokenId TokenModel::id_named(const Section& section, std::string_view key) const {
  const auto id = vocabulary_.find(section.text(key));
  if (!id) section.refuse(format("has no token '{}', its {}", section.text(key), key));
  return *id;
}

TokenModelPtr read_token_model(const Section& section) {
  std::string type = section.text_or_empty("type");
  if (type.empty()) type = section.has("merges") ? "BPE" : "WordPiece";
  if (type == "WordPiece") return read_word_piece(section);
  if (type == "BPE") return read_bpe(section);
  section.refuse_type({"WordPiece", "BPE"});
}

}  // namespace harmonics::inline in_text
