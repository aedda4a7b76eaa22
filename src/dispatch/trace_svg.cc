// A trace as a picture: one line per lane, time to the right.
#include <algorithm>
#include <array>

#include <harmonics/base/format.h>
#include <harmonics/base/time_chart.h>
#include <harmonics/dispatch/trace.h>

namespace harmonics::inline in_dispatch {
namespace {

constexpr const char* kBusy = "#3b7dd8";
constexpr const char* kCopy = "#a9c8f0";
constexpr const char* kFailed = "#d33d3d";

double seconds_of(const TraceChunk& chunk) { return in_seconds(chunk.ended - chunk.started); }

TimeChart chart_of(const std::vector<TraceLane>& lanes) {
  Nanoseconds first = Nanoseconds::max();
  Nanoseconds last{0};
  for (const TraceLane& lane : lanes) {
    for (const TraceChunk& chunk : lane.chunks) {
      first = std::min(first, chunk.started);
      last = std::max(last, chunk.ended);
    }
  }
  return {in_seconds(std::min(first, last)), in_seconds(last), lanes.size()};
}

void draw_chunk(TimeChart& chart, std::size_t row, const TraceChunk& chunk) {
  const std::string title =
      format("rows {} to {}: {}{}", chunk.begin_row, chunk.begin_row + chunk.rows,
             short_time(seconds_of(chunk)), chunk.failed ? ", failed" : "");
  if (chunk.failed || chunk.computed <= chunk.started) {
    chart.box(row, in_seconds(chunk.started), in_seconds(chunk.ended),
              chunk.failed ? kFailed : kBusy, title);
    return;
  }
  const std::array<Nanoseconds, 4> ends = {chunk.started, chunk.prepared, chunk.computed,
                                           chunk.ended};
  constexpr std::array<const char*, 3> kColours = {kCopy, kBusy, kCopy};
  for (std::size_t k = 0; k < 3; ++k) {
    if (chart.pixels(in_seconds(ends[k + 1] - ends[k])) < 0.05) continue;
    chart.box(row, in_seconds(ends[k]), in_seconds(ends[k + 1]), kColours[k], title);
  }
}

void draw_lane(TimeChart& chart, std::size_t row, const TraceLane& lane) {
  const auto& chunks = lane.chunks;
  const auto narrow = [&](const TraceChunk& chunk) {
    return !chunk.failed && chart.pixels(seconds_of(chunk)) < TimeChart::kLeastPixels;
  };
  double busy = 0;
  std::uint64_t rows = 0;
  for (std::size_t c = 0; c < chunks.size();) {
    const std::size_t from = c;
    // A run of spans too narrow to see alone is drawn as one.
    while (c < chunks.size() && narrow(chunks[c]) &&
           chart.pixels(in_seconds(chunks[c].started - chunks[from].started)) <
               TimeChart::kLeastPixels) {
      ++c;
    }
    if (c == from) c = from + 1;
    for (std::size_t k = from; k < c; ++k) {
      busy += seconds_of(chunks[k]);
      rows += chunks[k].failed ? 0 : chunks[k].rows;
    }
    if (c == from + 1) {
      draw_chunk(chart, row, chunks[from]);
    } else {
      chart.box(row, in_seconds(chunks[from].started), in_seconds(chunks[c - 1].ended), kBusy,
                format("{} sub-batches", c - from));
    }
  }
  chart.label(row, format("{} / {}", lane.device, lane.lane),
              format("{:.1f} % busy, {} rows", chart.share(busy), rows));
}

}  // namespace

std::string dispatch_trace_svg(const std::vector<TraceLane>& lanes) {
  TimeChart chart = chart_of(lanes);
  for (std::size_t row = 0; row < lanes.size(); ++row) draw_lane(chart, row, lanes[row]);
  return chart.svg();
}

}  // namespace harmonics::inline in_dispatch
