// harmonics dispatch-trace: what the workers of a dispatcher did, as a table or a picture.
#include <algorithm>

#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/dispatch/trace.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

constexpr std::size_t kMaxTraceFile = std::size_t{512} << 20;

struct Summary {
  std::size_t chunks = 0;
  std::size_t failed = 0;
  std::uint64_t rows = 0;
  double busy_s = 0;
};

Summary summary_of(const TraceLane& lane) {
  Summary sum;
  for (const TraceChunk& chunk : lane.chunks) {
    ++sum.chunks;
    sum.busy_s += in_seconds(chunk.ended - chunk.started);
    if (chunk.failed) {
      ++sum.failed;
    } else {
      sum.rows += chunk.rows;
    }
  }
  return sum;
}

double length_of(const std::vector<TraceLane>& lanes) {
  Nanoseconds end{0};
  for (const TraceLane& lane : lanes) {
    for (const TraceChunk& chunk : lane.chunks) end = std::max(end, chunk.ended);
  }
  return in_seconds(end);
}

std::string as_json(const std::vector<TraceLane>& lanes) {
  Json workers = Json::array();
  for (const TraceLane& lane : lanes) {
    const Summary sum = summary_of(lane);
    Json one = Json::object();
    one.set("device", lane.device);
    one.set("lane", lane.lane);
    one.set("sub_batches", static_cast<std::int64_t>(sum.chunks));
    one.set("failed", static_cast<std::int64_t>(sum.failed));
    one.set("rows", sum.rows);
    one.set("busy_s", sum.busy_s);
    one.set("dropped", lane.dropped);
    workers.push(std::move(one));
  }
  Json report = Json::object();
  report.set("seconds", length_of(lanes));
  report.set("workers", std::move(workers));
  return report.dump() + "\n";
}

std::string as_table(const std::vector<TraceLane>& lanes) {
  Table table{.columns = {{"worker"},
                          {"sub-batches", Align::kRight},
                          {"failed", Align::kRight},
                          {"rows", Align::kRight},
                          {"busy", Align::kRight},
                          {"rows/s", Align::kRight}},
              .rows = {}};
  const double length = std::max(1e-12, length_of(lanes));
  for (const TraceLane& lane : lanes) {
    const Summary sum = summary_of(lane);
    table.rows.push_back({format("{} / {}", lane.device, lane.lane),
                          with_thousands(static_cast<std::int64_t>(sum.chunks)),
                          with_thousands(static_cast<std::int64_t>(sum.failed)),
                          with_thousands(static_cast<std::int64_t>(sum.rows)),
                          as_percent(sum.busy_s / length),
                          as_rate(static_cast<double>(sum.rows) / length)});
  }
  return table.text(wants_colour(TextStream::kOutput));
}

}  // namespace

int dispatch_trace(const DispatchTraceCommand& command) {
  const std::vector<TraceLane> lanes =
      read_dispatch_trace(read_text_file(command.file, kMaxTraceFile), command.file.string());
  std::string text;
  if (command.svg) {
    text = dispatch_trace_svg(lanes);
  } else if (command.output == OutputStyle::kJson) {
    text = as_json(lanes);
  } else if (command.output == OutputStyle::kTable) {
    text = as_table(lanes);
  }
  if (command.out.empty()) {
    write_text(TextStream::kOutput, text);
  } else {
    write_text_file(command.out, text);
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
