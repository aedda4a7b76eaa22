// A picture of who did what when: a line per row, time to the right.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace harmonics::inline in_base {

/// Draws SVG. Times are seconds, on whatever clock the caller has; the picture begins at zero.
class TimeChart {
 public:
  TimeChart(double begin_s, double end_s, std::size_t rows);

  /// What stands before and behind a row.
  void label(std::size_t row, std::string_view name, std::string_view remark);
  /// `fill` and `title` (what a pointer that rests on it shows) may be any text.
  void box(std::size_t row, double from_s, double to_s, std::string_view fill,
           std::string_view title);
  /// How wide so many seconds are; boxes below kLeastPixels cannot be told apart.
  [[nodiscard]] double pixels(double seconds) const { return seconds * scale_; }
  /// In percent of the whole time.
  [[nodiscard]] double share(double seconds) const;

  /// The whole picture, with a line of explanation below where there is one.
  [[nodiscard]] std::string svg(std::string_view legend = {}) const;

  static constexpr double kLeastPixels = 0.4;

 private:
  [[nodiscard]] std::string axis() const;

  double begin_s_;
  double length_s_;
  double scale_;
  std::size_t rows_;
  std::string drawn_;
};

/// "1.5 s", "20 ms", "3.2 us": four digits at most.
[[nodiscard]] std::string short_time(double seconds);

}  // namespace harmonics::inline in_base
