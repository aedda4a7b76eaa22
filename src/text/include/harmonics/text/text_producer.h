// Lines of a file as rows of token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <harmonics/data/producer.h>
#include <harmonics/text/text_rows.h>
#include <harmonics/text/tokenizer.h>

namespace harmonics::inline in_text {

/// Which of the rows that a text becomes.
enum class TextColumn { kInputIds, kAttentionMask, kTokenTypeIds };

struct TextOptions {
  TextColumn column = TextColumn::kInputIds;
  /// Ids of every row: longer texts are cut, shorter ones filled up.
  std::int64_t length = 0;
  /// int64 or int32.
  DType dtype = DType::kInt64;
  /// Rows are JSON: texts, or objects whose member `field` is one. Else every line is a text.
  bool json = true;
  std::string field = "text";
};

inline constexpr std::int64_t kMaxTextLength = std::int64_t{1} << 20;

/// A sample {length} for every line of a file. Producers of several columns of one file stay side
/// by side, as those of a table do. A length outside 1..kMaxTextLength or another dtype is an
/// Error; so is a row that is no text, with file and line.
class TextProducer final : public IndexedProducer {
 public:
  TextProducer(std::shared_ptr<const TextRows> rows, std::shared_ptr<const Tokenizer> tokenizer,
               TextOptions options);

  [[nodiscard]] TensorSpec sample_spec() const override;
  [[nodiscard]] std::int64_t row_count() const override { return rows_->count(); }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

 private:
  [[nodiscard]] std::vector<std::int64_t> column_of(std::int64_t row) const;

  std::shared_ptr<const TextRows> rows_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  TextOptions options_;
};

}  // namespace harmonics::inline in_text
