// Finds where the rows of a CSV file begin, without looking at what they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <harmonics/data/byte_source.h>

#include "csv_row.h"

namespace harmonics::inline in_data {

/// Walks over the rows of a file in blocks. A line end between quotes belongs to its row; lines
/// that hold nothing but spaces are passed over. One thread. Does not own the file.
class CsvScanner {
 public:
  /// A row longer than `row_bytes_limit` is an Error.
  CsvScanner(const ByteSource& file, std::uint64_t offset, std::size_t row_bytes_limit);

  struct Row {
    std::uint64_t offset;  // of its first byte in the file
    CsvRowText text;       // valid until the next call
  };
  /// The next row; nothing at the end of the file. A quote that is still open there is an Error.
  [[nodiscard]] std::optional<Row> next();

 private:
  [[nodiscard]] const char* find_row_end();
  [[nodiscard]] bool all_loaded() const { return loaded_until_ == file_.size(); }
  void check_length(std::size_t length, std::uint64_t offset) const;
  void load_more();

  const ByteSource& file_;
  const std::size_t row_bytes_limit_;
  std::vector<char> block_;      // and kCsvPadding
  const char* begin_ = nullptr;  // of what has not been handed out
  const char* end_ = nullptr;
  const char* quote_ = nullptr;  // the first quote at or after begin_, end_ when there is none
  bool open_quote_ = false;      // whether the last search ran out inside quotes
  std::uint64_t loaded_until_;   // file offset of end_
};

/// The line, counted from 1, that holds the byte at `offset`. Reads the file up to there.
[[nodiscard]] std::uint64_t line_at(const ByteSource& file, std::uint64_t offset);

}  // namespace harmonics::inline in_data
