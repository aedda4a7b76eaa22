// Reading a trace back. Times become nanoseconds since its first event.
#include <cmath>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/dispatch/trace.h>

namespace harmonics::inline in_dispatch {
namespace {

constexpr std::size_t kMaxTraceLanes = 4096;
constexpr double kMaxMicroseconds = 1e15;

class TraceReader {
 public:
  explicit TraceReader(std::string_view name) : name_(name) {}

  std::vector<TraceLane> read(const Json& file) {
    const Json* const events = file.is_object() ? file.find("traceEvents") : nullptr;
    if (events == nullptr || !events->is_array()) {
      fail(ErrorCode::kInvalidArgument,
           "{}: this is no trace of a dispatcher: it has no list 'traceEvents'", name_);
    }
    for (const Json& event : events->as_array()) {
      const std::string& phase = event.at("ph").as_string();
      if (phase == "M") add_lane(event);
      if (phase == "X") add_span(event);
    }
    return std::move(lanes_);
  }

 private:
  void add_lane(const Json& event) {
    const Json& about = event.at("args");
    if (about.find("device") == nullptr) return;
    if (lanes_.size() == kMaxTraceLanes) {
      fail(ErrorCode::kInvalidArgument, "{}: more than {} lanes", name_, kMaxTraceLanes);
    }
    row_of_[event.at("tid").as_integer()] = lanes_.size();
    TraceLane& lane = lanes_.emplace_back();
    lane.device = about.at("device").as_string();
    lane.lane = static_cast<int>(whole(about.at("lane"), kMaxTraceLanes));
    if (const Json* const dropped = about.find("dropped")) {
      lane.dropped = whole(*dropped, INT64_MAX);
    }
  }

  void add_span(const Json& event) {
    const auto row = row_of_.find(event.at("tid").as_integer());
    if (row == row_of_.end()) {
      fail(ErrorCode::kInvalidArgument, "{}: an event of lane {}, which has no name", name_,
           event.at("tid").as_integer());
    }
    TraceLane& lane = lanes_[row->second];
    const Nanoseconds start = time(event.at("ts"));
    const Nanoseconds end = start + time(event.at("dur"));
    const std::string& what = event.at("name").as_string();
    if (event.at("cat").as_string() == "sub-batch") {
      TraceChunk chunk{.started = start, .prepared = start, .computed = start, .ended = end};
      chunk.begin_row = whole(event.at("args").at("row"), INT64_MAX);
      chunk.rows = whole(event.at("args").at("rows"), INT64_MAX);
      chunk.failed = what == "failed";
      lane.add(chunk);
    } else if (!lane.chunks.empty()) {
      // The phases of a sub-batch come right behind it.
      TraceChunk& chunk = lane.chunks.back();
      if (what == "prepare") chunk.prepared = chunk.computed = end;
      if (what == "compute") chunk.computed = end;
    }
  }

  [[nodiscard]] std::uint64_t whole(const Json& json, std::int64_t most) const {
    const std::int64_t value = json.as_integer();
    if (value < 0 || value > most) {
      fail(ErrorCode::kInvalidArgument, "{}: {} is out of range", name_, value);
    }
    return static_cast<std::uint64_t>(value);
  }

  [[nodiscard]] Nanoseconds time(const Json& json) const {
    const double value = json.as_number();
    if (!(value >= 0 && value <= kMaxMicroseconds)) {
      fail(ErrorCode::kInvalidArgument, "{}: {} is no time", name_, value);
    }
    return Nanoseconds(static_cast<std::int64_t>(std::llround(value * 1e3)));
  }

  std::string name_;
  std::vector<TraceLane> lanes_;
  std::map<std::int64_t, std::size_t> row_of_;
};

}  // namespace

std::vector<TraceLane> read_dispatch_trace(std::string_view json, std::string_view name) {
  return TraceReader(name).read(Json::parse(json, name));
}

}  // namespace harmonics::inline in_dispatch
