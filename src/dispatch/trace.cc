#include <harmonics/dispatch/trace.h>

#include <algorithm>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_dispatch {
namespace {

double microseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e3; }

Nanoseconds first_start(const std::deque<TraceLane>& lanes) {
  Nanoseconds first = Nanoseconds::max();
  for (const TraceLane& lane : lanes) {
    for (const TraceChunk& chunk : lane.chunks) first = std::min(first, chunk.started);
  }
  return first == Nanoseconds::max() ? Nanoseconds(0) : first;
}

// Writes events one per line, without building a tree of a million nodes.
class EventWriter {
 public:
  explicit EventWriter(Nanoseconds origin) : origin_(origin) {}

  void name_row(std::size_t row, const TraceLane& lane) {
    begin();
    text_ += format(R"({{"ph":"M","name":"thread_name","pid":0,"tid":{},"args":{{"name":{},)"
                    R"("device":{},"lane":{},"dropped":{}}}}})",
                    row, json_quote(format("{} / {}", lane.device, lane.lane)),
                    json_quote(lane.device), lane.lane, lane.dropped);
  }

  void chunk(std::size_t row, const TraceChunk& chunk) {
    begin();
    text_ += format(R"({{"ph":"X","name":{},"cat":"sub-batch","pid":0,"tid":{},"ts":{:.3f},)"
                    R"("dur":{:.3f},"args":{{"row":{},"rows":{}}}}})",
                    chunk.failed ? R"("failed")" : R"("sub-batch")", row,
                    microseconds(chunk.started - origin_),
                    microseconds(chunk.ended - chunk.started), chunk.begin_row, chunk.rows);
    phase(row, "prepare", chunk.started, chunk.prepared);
    phase(row, "compute", chunk.prepared, chunk.computed);
    phase(row, "finish", chunk.computed, chunk.ended);
  }

  void counter(const std::string& name, Nanoseconds when, double value) {
    begin();
    text_ += format(R"({{"ph":"C","name":{},"pid":0,"ts":{:.3f},"args":{{"value":{:.6g}}}}})",
                    json_quote(name), microseconds(when - origin_), value);
  }

  [[nodiscard]] std::string finish() && { return text_ + "\n]}\n"; }

 private:
  void begin() {
    if (!first_) text_ += ",\n";
    first_ = false;
  }
  void phase(std::size_t row, std::string_view name, Nanoseconds from, Nanoseconds to) {
    if (to <= from) return;
    begin();
    text_ += format(R"({{"ph":"X","name":"{}","cat":"phase","pid":0,"tid":{},"ts":{:.3f},)"
                    R"("dur":{:.3f}}})",
                    name, row, microseconds(from - origin_), microseconds(to - from));
  }

  Nanoseconds origin_;
  bool first_ = true;
  std::string text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
};

// Rows at work on a device after each of its events, and its rate at the end of each sub-batch.
void write_counters(EventWriter& writer, const std::deque<TraceLane>& lanes) {
  std::map<std::string, std::vector<const TraceChunk*>> devices;
  for (const TraceLane& lane : lanes) {
    for (const TraceChunk& chunk : lane.chunks) devices[lane.device].push_back(&chunk);
  }
  for (const auto& [device, chunks] : devices) {
    std::multimap<Nanoseconds, double> changes;
    for (const TraceChunk* chunk : chunks) {
      changes.emplace(chunk->started, static_cast<double>(chunk->rows));
      changes.emplace(chunk->ended, -static_cast<double>(chunk->rows));
      const double seconds = std::max(1e-9, in_seconds(chunk->ended - chunk->started));
      if (!chunk->failed) {
        writer.counter(device + " rows/s", chunk->ended,
                       static_cast<double>(chunk->rows) / seconds);
      }
    }
    double load = 0;
    for (auto at = changes.begin(); at != changes.end();) {
      const Nanoseconds when = at->first;
      for (; at != changes.end() && at->first == when; ++at) load += at->second;
      writer.counter(device + " load", when, load);
    }
  }
}

}  // namespace

DispatchTrace::DispatchTrace(std::filesystem::path file, std::size_t max_events)
    : file_(std::move(file)), max_events_(max_events) {}

DispatchTrace::~DispatchTrace() {
  if (file_.empty()) return;
  try {
    write(file_);
  } catch (const std::exception& error) {
    log_warn("dispatch", "the trace is lost: {}", error.what());
  }
}

TraceLane& DispatchTrace::lane(const std::string& device, int lane) {
  const std::lock_guard lock(mutex_);
  for (TraceLane& known : lanes_) {
    if (known.device == device && known.lane == lane) return known;
  }
  TraceLane& made = lanes_.emplace_back();
  made.device = device;
  made.lane = lane;
  made.limit = max_events_;
  return made;
}

std::string DispatchTrace::json() const {
  EventWriter writer(first_start(lanes_));
  for (std::size_t row = 0; row < lanes_.size(); ++row) {
    writer.name_row(row, lanes_[row]);
    for (const TraceChunk& chunk : lanes_[row].chunks) writer.chunk(row, chunk);
  }
  write_counters(writer, lanes_);
  return std::move(writer).finish();
}

void DispatchTrace::write(const std::filesystem::path& file) const {
  write_text_file(file, json());
}

}  // namespace harmonics::inline in_dispatch
