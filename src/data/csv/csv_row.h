// One row of a CSV file (RFC 4180): its fields, and its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/tensor/dtype.h>

namespace harmonics::inline in_data {

/// So many line ends stand after the bytes of every block of a file that is in memory.
inline constexpr std::size_t kCsvPadding = 8;

/// The bytes of one row, its line end (and blank lines after it) included, in such a block.
struct CsvRowText {
  const char* begin;
  const char* end;
};

/// Why a row could not be read: the column, counted from 0, and what is wrong there.
struct CsvFault {
  std::size_t column = 0;
  std::string what;
};

/// What becomes of the columns of a row.
struct CsvLayout {
  std::vector<std::int32_t> slots;  // for each column its place in the sample, or -1
  char delimiter = ',';
  DType dtype = DType::kFloat32;
  double scale = 1.0;
  bool allow_nan = true;
};

/// Reads one row into a sample of `layout.dtype` at `out`; false with `fault` filled in when it is
/// malformed. What was written to `out` by then is unspecified.
using CsvRowReader = bool (*)(const CsvLayout& layout, CsvRowText row, std::byte* out,
                              CsvFault& fault);
/// The reader for a layout's dtype and scale; null for a dtype that CSV files cannot hold.
[[nodiscard]] CsvRowReader csv_row_reader(const CsvLayout& layout);

/// The fields of a row as text, without quotes and without the spaces around them. At most `limit`
/// fields: nothing, with `fault` filled in, when there are more or the row is malformed.
[[nodiscard]] std::optional<std::vector<std::string>> split_csv_row(CsvRowText row, char delimiter,
                                                                    std::size_t limit,
                                                                    CsvFault& fault);

/// Whether a field would be read as a value of that dtype, or as a number at all.
[[nodiscard]] bool is_csv_value(std::string_view field, DType dtype);

/// `text` between quotes, cut to a readable length, with control characters shown as '?'.
[[nodiscard]] std::string quote_for_message(std::string_view text);

}  // namespace harmonics::inline in_data
