// Lines of a file as rows of token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <harmonics/data/producer.h>
#include <harmonics/data/row_places.h>
#include <harmonics/text/text_rows.h>
#include <harmonics/text/tokenizer.h>

namespace harmonics::inline in_text {

/// Which of the rows that a text becomes. Labels are the ids, with kIgnoredLabel where they only
/// fill the row: what a language model learns from.
enum class TextColumn { kInputIds, kAttentionMask, kTokenTypeIds, kLabels };

/// How long the rows of a batch are: all of them TextOptions::length, or as long as its longest
/// text (row_lengths).
enum class TextPadding { kMax, kLongest };

struct TextOptions {
  TextColumn column = TextColumn::kInputIds;
  /// Ids of every row: longer texts are cut, shorter ones filled up.
  std::int64_t length = 0;
  /// int64 or int32.
  DType dtype = DType::kInt64;
  /// Rows are JSON: texts, or objects whose member `field` is one. Else every line is a text.
  bool json = true;
  std::string field = "text";
  TextPadding padding = TextPadding::kMax;
};

inline constexpr std::int64_t kMaxTextLength = std::int64_t{1} << 20;

/// A sample {length} for every line of a file. Producers of several columns of one file stay side
/// by side, as those of a table do. A length outside 1..kMaxTextLength or another dtype is an
/// Error; so is a row that is no text, with file and line.
class TextProducer final : public IndexedProducer, public RowPlaces {
 public:
  TextProducer(std::shared_ptr<const TextRows> rows, std::shared_ptr<const Tokenizer> tokenizer,
               TextOptions options);

  [[nodiscard]] TensorSpec sample_spec() const override;
  [[nodiscard]] std::int64_t row_count() const override { return rows_->count(); }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;
  /// The tokens of each text; none where all rows are as long as `length`.
  [[nodiscard]] std::vector<std::int64_t> row_lengths(std::span<const std::int64_t> rows) override;
  /// 'path' line 12, token 3.
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const override;

 private:
  [[nodiscard]] Encoding encoding_of(std::int64_t row) const;
  [[nodiscard]] std::vector<std::int64_t> column_of(std::int64_t row);

  std::shared_ptr<const TextRows> rows_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  TextOptions options_;
  std::vector<std::int32_t> lengths_;  // by row, 0 for one that was not read yet
};

}  // namespace harmonics::inline in_text
