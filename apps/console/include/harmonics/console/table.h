// Numbers and tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace harmonics::inline in_console {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

/// Rows of text under titles. Every row has as many cells as there are columns.
struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;

  /// Columns as wide as their widest cell, two spaces between them, one line per row; titles in
  /// bold when `colour`. Control characters of cells and titles are escaped.
  [[nodiscard]] std::string text(bool colour) const;
};

/// "[####....]" with `width` characters between the brackets, green when `colour`.
[[nodiscard]] std::string progress_bar(double share, int width, bool colour);
/// 1234567 as "1,234,567".
[[nodiscard]] std::string with_thousands(std::int64_t number);
/// 2345678 as "2.35 M"; for quantities that only matter roughly.
[[nodiscard]] std::string in_short(double number);
/// How many a second, to three digits: 0.3312 as "0.331", 12.34 as "12.3", 2345678 as "2.35 M".
[[nodiscard]] std::string as_rate(double per_second);
/// 0.97531 as "97.53 %".
[[nodiscard]] std::string as_percent(double share);
/// "0.1353"; one that is no number is "nan", whatever its sign bit.
[[nodiscard]] std::string as_loss(double loss);
/// 3725 s as "1:02:05", 65 s as "1:05".
[[nodiscard]] std::string as_duration(double seconds);

}  // namespace harmonics::inline in_console
