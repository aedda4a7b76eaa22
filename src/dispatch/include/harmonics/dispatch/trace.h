// A record of what each lane did when, as Chrome/Perfetto JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_dispatch {

/// Events that one lane keeps; later ones are counted and the file says how many are missing.
inline constexpr std::size_t kMaxTraceEvents = 1'000'000;

/// One sub-batch at one lane.
struct TraceChunk {
  std::uint64_t begin_row = 0;
  std::uint64_t rows = 0;
  Nanoseconds started{0};
  /// Ends of preparing and computing; what remains up to `ended` is postprocessing.
  Nanoseconds prepared{0};
  Nanoseconds computed{0};
  Nanoseconds ended{0};
  bool failed = false;
};

/// What one lane did. Only that lane adds; nobody reads while it is at work.
struct TraceLane {
  std::string device;
  int lane = 0;
  std::deque<TraceChunk> chunks;
  std::uint64_t dropped = 0;
  std::size_t limit = kMaxTraceEvents;

  void add(const TraceChunk& chunk) {
    if (chunks.size() < limit) {
      chunks.push_back(chunk);
    } else {
      ++dropped;
    }
  }
};

/// Give it to a dispatcher in DispatchOptions. Each lane has a row: its sub-batches, and within
/// them "prepare", "compute" and "finish"; each device has two counters, the rows that it holds and
/// its rows per second. Times are microseconds since the first event. Several dispatchers may share
/// one, one after the other.
class DispatchTrace {
 public:
  /// With a file, the trace is written there when it is destroyed (an error is logged).
  explicit DispatchTrace(std::filesystem::path file = {}, std::size_t max_events = kMaxTraceEvents);
  ~DispatchTrace();
  DispatchTrace(const DispatchTrace&) = delete;
  DispatchTrace& operator=(const DispatchTrace&) = delete;

  /// The row of a lane, made when it is new. Valid as long as the trace.
  [[nodiscard]] TraceLane& lane(const std::string& device, int lane);

  // Between runs only.
  [[nodiscard]] std::string json() const;
  /// Whole or not at all; errors name the file.
  void write(const std::filesystem::path& file) const;
  [[nodiscard]] const std::deque<TraceLane>& lanes() const { return lanes_; }

 private:
  std::filesystem::path file_;
  std::size_t max_events_;
  std::mutex mutex_;
  std::deque<TraceLane> lanes_;
};

/// Reads a trace that DispatchTrace wrote; another file is an Error (kInvalidArgument) that says
/// what is wrong.
[[nodiscard]] std::vector<TraceLane> read_dispatch_trace(std::string_view json,
                                                         std::string_view name);

/// Draws a trace: one line per lane, time to the right, busy share of each lane. Lanes without
/// any sub-batch are drawn empty.
[[nodiscard]] std::string dispatch_trace_svg(const std::vector<TraceLane>& lanes);

}  // namespace harmonics::inline in_dispatch
