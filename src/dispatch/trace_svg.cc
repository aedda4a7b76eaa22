// A trace as a picture: one line per worker, time to the right.
#include <algorithm>
#include <array>
#include <cmath>

#include <harmonics/base/format.h>
#include <harmonics/base/xml.h>
#include <harmonics/dispatch/trace.h>

namespace harmonics {
namespace {

constexpr double kLeft = 230;
constexpr double kWidth = 900;
constexpr double kRight = 170;
constexpr double kRow = 26;
constexpr double kTop = 34;
/// Spans narrower than this are drawn together with their neighbours.
constexpr double kLeastPixels = 0.4;
constexpr const char* kBusy = "#3b7dd8";
constexpr const char* kCopy = "#a9c8f0";
constexpr const char* kFailed = "#d33d3d";

double in_seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

std::string duration_text(double seconds) {
  if (seconds >= 1) return format("{:.4g} s", seconds);
  if (seconds >= 1e-3) return format("{:.4g} ms", seconds * 1e3);
  return format("{:.4g} us", seconds * 1e6);
}

class Picture {
 public:
  explicit Picture(const std::vector<TraceLane>& lanes) : lanes_(lanes) {
    bool any = false;
    for (const TraceLane& lane : lanes) {
      for (const TraceChunk& chunk : lane.chunks) {
        first_ = any ? std::min(first_, chunk.started) : chunk.started;
        last_ = any ? std::max(last_, chunk.ended) : chunk.ended;
        any = true;
      }
    }
    scale_ = kWidth / std::max(1e-9, in_seconds(last_ - first_));
  }

  std::string draw() {
    const double height = kTop + kRow * static_cast<double>(lanes_.size()) + 12;
    const double width = kLeft + kWidth + kRight;
    text_ = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
        "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n",
        width, height);
    draw_axis(height);
    for (std::size_t row = 0; row < lanes_.size(); ++row) draw_lane(row);
    return text_ + "</svg>\n";
  }

 private:
  [[nodiscard]] double x_of(Nanoseconds time) const {
    return kLeft + in_seconds(time - first_) * scale_;
  }

  void draw_axis(double height) {
    const double length = in_seconds(last_ - first_);
    if (length <= 0) return;
    double step = std::pow(10, std::floor(std::log10(length / 5)));
    for (const double factor : {2.0, 2.5, 2.0}) {
      if (length / step > 8) step *= factor;
    }
    for (double at = 0; at <= length * 1.0001; at += step) {
      const double x = kLeft + at * scale_;
      text_ += format(
          "<line x1=\"{0:.1f}\" y1=\"{1:g}\" x2=\"{0:.1f}\" y2=\"{2:g}\" stroke=\"#dddddd\"/>"
          "<text x=\"{0:.1f}\" y=\"{3:g}\" text-anchor=\"middle\" fill=\"#555555\">{4}</text>\n",
          x, kTop - 8, height - 8, kTop - 14, duration_text(at));
    }
  }

  void rect(double from, double to, double y, const char* colour, const std::string& title) {
    text_ += format(
        "<rect x=\"{:.2f}\" y=\"{:g}\" width=\"{:.2f}\" height=\"{:g}\" fill=\"{}\"><title>{}"
        "</title></rect>\n",
        from, y, std::max(to - from, kLeastPixels), kRow - 8, colour, title);
  }

  void draw_chunk(const TraceChunk& chunk, double y) {
    const std::string title = format(
        "rows {} to {}: {}{}", chunk.begin_row, chunk.begin_row + chunk.rows,
        duration_text(in_seconds(chunk.ended - chunk.started)), chunk.failed ? ", failed" : "");
    if (chunk.failed || chunk.computed <= chunk.started) {
      rect(x_of(chunk.started), x_of(chunk.ended), y, chunk.failed ? kFailed : kBusy, title);
      return;
    }
    const std::array<Nanoseconds, 4> ends = {chunk.started, chunk.prepared, chunk.computed,
                                             chunk.ended};
    constexpr std::array<const char*, 3> kColours = {kCopy, kBusy, kCopy};
    for (std::size_t k = 0; k < 3; ++k) {
      if (x_of(ends[k + 1]) - x_of(ends[k]) < 0.05) continue;
      rect(x_of(ends[k]), x_of(ends[k + 1]), y, kColours[k], title);
    }
    // The edge between two sub-batches.
    text_ +=
        format("<rect x=\"{:.2f}\" y=\"{:g}\" width=\"0.6\" height=\"{:g}\" fill=\"white\"/>\n",
               x_of(chunk.ended) - 0.6, y, kRow - 8);
  }

  void draw_lane(std::size_t row) {
    const TraceLane& lane = lanes_[row];
    const double y = kTop + kRow * static_cast<double>(row);
    text_ += format("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"end\">{}</text>\n", kLeft - 10,
                    y + 13, xml_text(format("{} / {}", lane.device, lane.lane)));
    double busy = 0;
    std::uint64_t rows = 0;
    for (std::size_t c = 0; c < lane.chunks.size();) {
      const std::size_t from = c;
      // A run of spans too narrow to see alone.
      while (c < lane.chunks.size() && narrow(lane.chunks[c]) &&
             x_of(lane.chunks[c].started) - x_of(lane.chunks[from].started) < kLeastPixels) {
        ++c;
      }
      if (c == from) c = from + 1;
      for (std::size_t k = from; k < c; ++k) {
        busy += in_seconds(lane.chunks[k].ended - lane.chunks[k].started);
        rows += lane.chunks[k].failed ? 0 : lane.chunks[k].rows;
      }
      if (c == from + 1) {
        draw_chunk(lane.chunks[from], y);
      } else {
        rect(x_of(lane.chunks[from].started), x_of(lane.chunks[c - 1].ended), y, kBusy,
             format("{} sub-batches", c - from));
      }
    }
    const double length = std::max(1e-12, in_seconds(last_ - first_));
    text_ += format("<text x=\"{:g}\" y=\"{:g}\" fill=\"#555555\">{:.1f} % busy, {} rows</text>\n",
                    kLeft + kWidth + 10, y + 13, 100 * busy / length, rows);
  }

  [[nodiscard]] bool narrow(const TraceChunk& chunk) const {
    return !chunk.failed && in_seconds(chunk.ended - chunk.started) * scale_ < kLeastPixels;
  }

  const std::vector<TraceLane>& lanes_;
  Nanoseconds first_{0};
  Nanoseconds last_{0};
  double scale_ = 1;
  std::string text_;
};

}  // namespace

std::string dispatch_trace_svg(const std::vector<TraceLane>& lanes) {
  return Picture(lanes).draw();
}

}  // namespace harmonics
