// Text to the numbers that a language model reads, and back.
//
// A tokenizer is data: the `tokenizer.json` that lies in the folder of a Hugging Face model. It
// names a normaliser, a pre-tokeniser, a model (WordPiece or byte-pair encoding), a post-processor
// and a decoder. Every part that is read here gives the ids that the `tokenizers` package gives;
// every part that is not is refused by its name, never left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_text {

inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{64} << 20;  // of tokenizer.json
inline constexpr std::size_t kMaxVocabulary = std::size_t{1} << 21;       // ids, and merges
inline constexpr std::size_t kMaxTokenBytes = 4096;                       // of one token
inline constexpr std::size_t kMaxAddedTokens = std::size_t{1} << 16;
inline constexpr std::size_t kMaxTextBytes = std::size_t{32} << 20;  // of one text

/// What a text became: three rows of one length.
struct Encoding {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> type_ids;
  /// 1 for a token of the text, 0 for one that only fills the row.
  std::vector<std::int64_t> mask;
};

struct EncodeOptions {
  /// Adds what the post-processor adds ([CLS], [SEP], <s> …).
  bool special_tokens = true;
  /// No more ids than this, special ones included; 0 for no bound. Fewer than the special ones is
  /// an Error.
  std::size_t max_length = 0;
  /// Fills the row up to this many ids; 0 for none. More than that stay as they are.
  std::size_t pad_to = 0;
};

/// One tokenizer. It never changes: all members may be called from several threads at once.
///
/// The `truncation` and `padding` of the file are habits of who saved it, which transformers sets
/// anew at every call. So they are here: lengths are those of EncodeOptions, and the file says only
/// with which id and on which side a row is cut and filled.
class Tokenizer {
 public:
  /// Reads DIR/tokenizer.json, or the file itself. A missing, oversized or malformed file, and a
  /// part, setting or combination that is not known here, is an Error that says where it stands.
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& folder_or_file);
  /// The same from the text of such a file; `name` says in errors whose text it is.
  [[nodiscard]] static Tokenizer parse(std::string_view json, std::string_view name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// The ids of `text`, which must be UTF-8 of at most kMaxTextBytes: anything else is an Error.
  [[nodiscard]] Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The text of `ids`, without special tokens unless `special_tokens`. Bytes that are no UTF-8
  /// become U+FFFD. An id that the vocabulary lacks is an Error.
  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids,
                                   bool special_tokens = false) const;

  /// One more than the largest id.
  [[nodiscard]] std::size_t vocabulary_size() const;
  /// The id of a token as the vocabulary spells it, or nothing.
  [[nodiscard]] std::optional<std::int64_t> id_of(std::string_view token) const;
  /// The token of an id as the vocabulary spells it; empty for an id that it lacks.
  [[nodiscard]] std::string_view token_of(std::int64_t id) const;
  /// What rows are filled with: the file's padding, else its token [PAD] or <pad>, else 0.
  [[nodiscard]] std::int64_t pad_id() const;

  /// What the file says, in parts; of this module alone.
  struct Parts;

 private:
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace harmonics::inline in_text
