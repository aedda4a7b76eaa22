// A trace of passes as a picture.
#include <algorithm>
#include <array>
#include <cmath>

#include <harmonics/base/format.h>
#include <harmonics/base/xml.h>

#include "pass_trace.h"

namespace harmonics {
namespace {

constexpr double kLeft = 210;
constexpr double kWidth = 920;
constexpr double kRight = 90;
constexpr double kRow = 30;
constexpr double kTop = 40;
constexpr double kBottom = 40;
constexpr double kLeastPixels = 0.3;
constexpr std::array<const char*, 6> kColours = {"#2f6fab", "#c8682b", "#3d8f5f",
                                                 "#8a5aa8", "#a83a4a", "#5c6b73"};

std::string duration_text(double seconds) {
  if (seconds >= 1) return format("{:.4g} s", seconds);
  if (seconds >= 1e-3) return format("{:.4g} ms", seconds * 1e3);
  return format("{:.4g} us", seconds * 1e6);
}

class Picture {
 public:
  explicit Picture(const std::vector<TracedStage>& stages)
      : stages_(stages), span_(span_of(stages)) {
    scale_ = kWidth / std::max(1e-9, span_.end_s - span_.begin_s);
  }

  std::string draw() {
    const double bottom = kTop + kRow * static_cast<double>(stages_.size());
    const double width = kLeft + kWidth + kRight;
    text_ = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
        "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n",
        width, bottom + kBottom);
    draw_axis(bottom);
    for (std::size_t row = 0; row < stages_.size(); ++row) draw_stage(row);
    text_ += format(
        "<text x=\"{:g}\" y=\"{:g}\" fill=\"#555555\">dark: forward, light: backward, a colour per "
        "micro-batch</text>\n",
        kLeft, bottom + 24);
    return text_ + "</svg>\n";
  }

 private:
  [[nodiscard]] double x_of(double time_s) const {
    return kLeft + (time_s - span_.begin_s) * scale_;
  }

  void draw_axis(double bottom) {
    const double length = span_.end_s - span_.begin_s;
    if (length <= 0) return;
    // Ticks at 1, 2 or 5 times a power of ten, at most eight of them.
    double step = std::pow(10, std::floor(std::log10(length / 5)));
    for (const double factor : {2.0, 2.5, 2.0}) {
      if (length / step > 8) step *= factor;
    }
    for (double at = 0; at <= length * 1.0001; at += step) {
      text_ += format(
          "<line x1=\"{0:.1f}\" y1=\"{1:g}\" x2=\"{0:.1f}\" y2=\"{2:g}\" stroke=\"#dddddd\"/>"
          "<text x=\"{0:.1f}\" y=\"{3:g}\" text-anchor=\"middle\" fill=\"#555555\">{4}</text>\n",
          kLeft + at * scale_, kTop - 8, bottom, kTop - 14, duration_text(at));
    }
  }

  void draw_stage(std::size_t row) {
    const TracedStage& stage = stages_[row];
    const double y = kTop + kRow * static_cast<double>(row);
    text_ += format("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"end\">{}</text>\n", kLeft - 10,
                    y + 15, xml_text(stage.name));
    double busy = 0;
    for (const TracedPass& pass : stage.passes) {
      busy += pass.end_s - pass.begin_s;
      const double from = x_of(pass.begin_s);
      text_ += format(
          "<rect x=\"{:.2f}\" y=\"{:g}\" width=\"{:.2f}\" height=\"{:g}\" fill=\"{}\" "
          "opacity=\"{}\"><title>step {}, micro-batch {}, {}: {}</title></rect>\n",
          from, y, std::max(x_of(pass.end_s) - from - 0.4, kLeastPixels), kRow - 8,
          kColours[static_cast<std::size_t>(std::abs(pass.micro_batch)) % kColours.size()],
          pass.forward ? "1" : "0.5", pass.step, pass.micro_batch,
          pass.forward ? "forward" : "backward", duration_text(pass.end_s - pass.begin_s));
    }
    text_ += format("<text x=\"{:g}\" y=\"{:g}\" fill=\"#555555\">{:.1f} % busy</text>\n",
                    kLeft + kWidth + 8, y + 15,
                    100 * busy / std::max(1e-12, span_.end_s - span_.begin_s));
  }

  const std::vector<TracedStage>& stages_;
  TraceSpan span_;
  double scale_ = 1;
  std::string text_;
};

}  // namespace

std::string pass_trace_svg(const std::vector<TracedStage>& stages) {
  return Picture(stages).draw();
}

}  // namespace harmonics
