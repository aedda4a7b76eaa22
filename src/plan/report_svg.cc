#include <algorithm>
#include <array>
#include <string_view>

#include <harmonics/base/format.h>
#include <harmonics/base/xml.h>
#include <harmonics/plan/report.h>

namespace harmonics::inline in_plan {
namespace {

constexpr int kMicroBatches = 6;
// More stages than this are not drawn: the picture would be taller than any screen.
constexpr std::size_t kMaxRows = 200;
constexpr double kLeft = 190;
constexpr double kTop = 64;
constexpr double kRow = 34;
constexpr double kBar = 20;
constexpr double kWidth = 900;  // of the time axis
constexpr std::array<std::string_view, kMicroBatches> kColours = {"#4269d0", "#efb118", "#ff725c",
                                                                  "#6cc5b0", "#a463f2", "#97bbf5"};

struct Bar {
  double start_s = 0;
  double end_s = 0;      // of compute
  double arrived_s = 0;  // at the next stage
};

// When each micro-batch is where: a stage takes the next one as soon as that has arrived and one of
// its hosts is free.
std::vector<std::vector<Bar>> simulate(const PlanReport& report) {
  std::vector<std::vector<Bar>> rows;
  std::vector<double> arrival(kMicroBatches, 0);
  for (const PlannedStage& one : report.stages) {
    std::vector<double> free_s(one.stage.hosts.size(), 0);
    std::vector<Bar>& row = rows.emplace_back();
    double link_free_s = 0;
    const bool overlaps = report.options.costs.overlap == Overlap::kFull;
    for (std::size_t m = 0; m < kMicroBatches; ++m) {
      double& host_s = free_s[m % free_s.size()];
      Bar bar;
      bar.start_s = std::max(arrival[m], host_s);
      bar.end_s = bar.start_s + one.costs.compute_s;
      bar.arrived_s = std::max(bar.end_s, link_free_s) + one.costs.transfer_s;
      if (one.stage.hosts.size() == 1) link_free_s = bar.arrived_s;
      host_s = overlaps ? bar.end_s : bar.arrived_s;
      arrival[m] = bar.arrived_s;
      row.push_back(bar);
    }
  }
  return rows;
}

class TimeLine {
 public:
  explicit TimeLine(const PlanReport& report) : report_(report), rows_(simulate(report)) {
    for (const std::vector<Bar>& row : rows_) end_s_ = std::max(end_s_, row.back().arrived_s);
    if (!(end_s_ > 0)) end_s_ = 1;
  }

  std::string draw() {
    const std::size_t shown = std::min(rows_.size(), kMaxRows);
    const double height = kTop + kRow * static_cast<double>(shown) + 56;
    text_ = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#ffffff\"/>\n",
        kLeft + kWidth + 30, height);
    heading();
    for (std::size_t k = 0; k < shown; ++k) row(k);
    axis(kTop + kRow * static_cast<double>(shown) + 8);
    if (shown < rows_.size()) {
      label(kLeft, height - 8, format("and {} more stages", rows_.size() - shown), "#666666");
    }
    return text_ + "</svg>\n";
  }

 private:
  double x(double seconds) const { return kLeft + seconds / end_s_ * kWidth; }

  void label(double left, double bottom, std::string_view words, std::string_view colour) {
    text_ += format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", left, bottom, colour,
                    xml_text(words));
  }

  void heading() {
    label(12, 22,
          format("{}: {} stages on {} hosts", report_.model, report_.stages.size(),
                 report_.outcome.hosts),
          "#111111");
    label(
        12, 42,
        format("period {:.6f} s ({}), {}latency {:.6f} s", report_.outcome.period_s,
               report_.outcome.proven ? "proven optimal"
                                      : format("bound {:.6f} s", report_.outcome.lower_bound_s),
               report_.outcome.period_s > 0 ? format("{:.3f} samples/s, ", report_.samples_per_s())
                                            : "",
               report_.outcome.latency_s),
        "#444444");
  }

  void row(std::size_t k) {
    const PlannedStage& one = report_.stages[k];
    const double top = kTop + kRow * static_cast<double>(k);
    const bool slowest = k == report_.slowest_stage;
    std::string name = one.stage.hosts.front();
    if (one.stage.hosts.size() > 1) name += format(" +{}", one.stage.hosts.size() - 1);
    label(12, top + 14, name, slowest ? "#c4302b" : "#111111");
    label(12, top + 27,
          format("layers {}-{}{}", one.stage.first_layer, one.stage.last_layer,
                 slowest ? ", slowest" : ""),
          "#888888");
    for (std::size_t m = 0; m < rows_[k].size(); ++m) {
      const Bar& bar = rows_[k][m];
      text_ += format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" rx=\"2\" "
          "fill=\"{}\"><title>micro-batch {}: {:.6f} s to {:.6f} s</title></rect>\n",
          x(bar.start_s), top + 4, std::max(0.5, x(bar.end_s) - x(bar.start_s)), kBar, kColours[m],
          m + 1, bar.start_s, bar.end_s);
      if (bar.arrived_s > bar.end_s) {
        text_ += format(
            "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"4\" fill=\"{}\" "
            "opacity=\"0.55\"><title>transfer: {:.6f} s</title></rect>\n",
            x(bar.end_s), top + 26, x(bar.arrived_s) - x(bar.end_s), kColours[m],
            bar.arrived_s - bar.end_s);
      }
    }
  }

  void axis(double top) {
    text_ += format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#888888\"/>\n",
        kLeft, top, kLeft + kWidth, top);
    for (int k = 0; k <= 6; ++k) {
      const double seconds = end_s_ * k / 6;
      text_ += format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#666666\">{:.3g} "
          "s</text>\n",
          x(seconds), top + 18, seconds);
    }
  }

  const PlanReport& report_;
  std::vector<std::vector<Bar>> rows_;
  double end_s_ = 0;
  std::string text_;
};

}  // namespace

std::string report_to_svg(const PlanReport& report) { return TimeLine(report).draw(); }

}  // namespace harmonics::inline in_plan
