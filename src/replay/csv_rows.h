// Rows of a CSV file by the names of its columns (private to replay).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_replay {

/// Walks over a text; lines end with \n or \r\n, fields hold no quotes. Not longer than the text.
class CsvRows {
 public:
  /// Reads the first line, which names the columns.
  CsvRows(std::string_view text, std::string_view where);

  /// The next row that is not empty; false at the end.
  bool next();
  [[nodiscard]] bool has(std::string_view column) const;
  /// Its place among the columns; one that is not there is an error that says which there are.
  [[nodiscard]] std::size_t column(std::string_view name) const;
  [[nodiscard]] std::string_view field(std::size_t column) const { return fields_[column]; }
  /// A number from `low` to `high` in that field; an empty field is `unset` where one is given.
  [[nodiscard]] double number(std::size_t column, double low, double high) const;
  [[nodiscard]] std::uint64_t whole(std::size_t column, std::uint64_t high) const;
  /// "trace.csv, line 7".
  [[nodiscard]] std::string here() const;
  [[noreturn]] void wrong(std::size_t column, std::string_view expected) const;

 private:
  bool take_line(std::string_view& line);
  void split(std::string_view line, std::vector<std::string_view>& fields) const;

  std::string_view rest_;
  std::string where_;
  std::size_t line_ = 0;
  std::vector<std::string_view> names_;
  std::vector<std::string_view> fields_;
};

}  // namespace harmonics::inline in_replay
