#include <harmonics/base/time_chart.h>

#include <algorithm>
#include <cmath>

#include <harmonics/base/format.h>
#include <harmonics/base/xml.h>

namespace harmonics::inline in_base {
namespace {

constexpr double kLeft = 230;
constexpr double kWidth = 900;
constexpr double kRight = 170;
constexpr double kRow = 28;
constexpr double kBox = 20;
constexpr double kTop = 36;
constexpr double kBottom = 36;
constexpr double kTextBelow = 14;  // of a row's text, under its upper edge
/// So that boxes that follow one another are seen as several.
constexpr double kGap = 0.4;

double y_of(std::size_t row) { return kTop + kRow * static_cast<double>(row); }

}  // namespace

std::string short_time(double seconds) {
  if (seconds >= 1) return format("{:.4g} s", seconds);
  if (seconds >= 1e-3) return format("{:.4g} ms", seconds * 1e3);
  return format("{:.4g} us", seconds * 1e6);
}

TimeChart::TimeChart(double begin_s, double end_s, std::size_t rows)
    : begin_s_(begin_s),
      length_s_(std::max(0.0, end_s - begin_s)),
      scale_(kWidth / std::max(1e-9, length_s_)),
      rows_(rows) {}

double TimeChart::share(double seconds) const { return 100 * seconds / std::max(1e-12, length_s_); }

void TimeChart::label(std::size_t row, std::string_view name, std::string_view remark) {
  drawn_ += format(
      "<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"end\">{}</text>"
      "<text x=\"{:g}\" y=\"{:g}\" fill=\"#555555\">{}</text>\n",
      kLeft - 10, y_of(row) + kTextBelow, xml_text(name), kLeft + kWidth + 10,
      y_of(row) + kTextBelow, xml_text(remark));
}

void TimeChart::box(std::size_t row, double from_s, double to_s, std::string_view fill,
                    std::string_view title) {
  drawn_ += format(
      "<rect x=\"{:.2f}\" y=\"{:g}\" width=\"{:.2f}\" height=\"{:g}\" fill=\"{}\"><title>{}</title>"
      "</rect>\n",
      kLeft + pixels(from_s - begin_s_), y_of(row),
      std::max(pixels(to_s - from_s) - kGap, kLeastPixels), kBox, xml_text(fill), xml_text(title));
}

// Ticks at 1, 2 or 5 times a power of ten, at most nine of them.
std::string TimeChart::axis() const {
  std::string out;
  if (length_s_ <= 0) return out;
  double step = std::pow(10, std::floor(std::log10(length_s_ / 5)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (length_s_ / step > 8) step *= factor;
  }
  for (double at = 0; at <= length_s_ * 1.0001; at += step) {
    out += format(
        "<line x1=\"{0:.1f}\" y1=\"{1:g}\" x2=\"{0:.1f}\" y2=\"{2:g}\" stroke=\"#dddddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:g}\" text-anchor=\"middle\" fill=\"#555555\">{4}</text>\n",
        kLeft + pixels(at), kTop - 8, y_of(rows_), kTop - 14, short_time(at));
  }
  return out;
}

std::string TimeChart::svg(std::string_view legend) const {
  const double height = y_of(rows_) + kBottom;
  std::string out = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n",
      kLeft + kWidth + kRight, height);
  out += axis() + drawn_;
  if (!legend.empty()) {
    out += format("<text x=\"{:g}\" y=\"{:g}\" fill=\"#555555\">{}</text>\n", kLeft, height - 12,
                  xml_text(legend));
  }
  return out + "</svg>\n";
}

}  // namespace harmonics::inline in_base
