// A trace of passes as a picture.
#include <array>
#include <cstdlib>
#include <utility>

#include <harmonics/base/format.h>
#include <harmonics/base/time_chart.h>

#include "pass_trace.h"

namespace harmonics::inline in_front {
namespace {

/// Of forward and backward passes.
constexpr std::array<std::pair<const char*, const char*>, 6> kColours = {{
    {"#2f6fab", "#97b7d5"},
    {"#c8682b", "#e3b395"},
    {"#3d8f5f", "#9ec7af"},
    {"#8a5aa8", "#c4acd3"},
    {"#a83a4a", "#d39ca4"},
    {"#5c6b73", "#adb5b9"},
}};

}  // namespace

std::string pass_trace_svg(const std::vector<TracedStage>& stages) {
  const TraceSpan span = span_of(stages);
  TimeChart chart(span.begin_s, span.end_s, stages.size());
  for (std::size_t row = 0; row < stages.size(); ++row) {
    double busy = 0;
    for (const TracedPass& pass : stages[row].passes) {
      busy += pass.end_s - pass.begin_s;
      const auto colour = static_cast<std::size_t>(std::abs(pass.micro_batch)) % kColours.size();
      chart.box(
          row, pass.begin_s, pass.end_s,
          pass.forward ? kColours.at(colour).first : kColours.at(colour).second,
          format("step {}, micro-batch {}, {}: {}", pass.step, pass.micro_batch,
                 pass.forward ? "forward" : "backward", short_time(pass.end_s - pass.begin_s)));
    }
    chart.label(row, stages[row].name, format("{:.1f} % busy", chart.share(busy)));
  }
  return chart.svg("dark: forward, light: backward, a colour per micro-batch");
}

}  // namespace harmonics::inline in_front
