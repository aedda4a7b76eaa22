// When to let small frames gather instead of moving each by itself.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {

/// In a stream of small frames, waking the reader for each one, or handing each one to the network,
/// costs more than the frame. So after a run of moves in quick succession in one direction, with no
/// message in the other, frames may gather for a moment. Question and answer never count as a run,
/// so no answer waits. One object per direction. Pure: time is an argument.
class Gather {
 public:
  /// Enough when so many bytes are there, or so much time has passed.
  static constexpr std::size_t kBytes = std::size_t{32} << 10;
  static constexpr Nanoseconds kTime = std::chrono::microseconds(200);

  /// So many bytes moved; `opposite` messages have moved in the other direction until then.
  void moved(std::size_t bytes, std::uint64_t opposite, Deadline now) {
    const bool quick = now - last_move_ < kTime && opposite == opposite_ && bytes < 2 * kBytes;
    run_ = quick ? run_ + 1 : 0;
    last_move_ = now;
    opposite_ = opposite;
  }
  [[nodiscard]] bool wanted() const { return run_ >= needed_; }
  /// Waiting paid off: enough came before the time was over.
  void paid() { needed_ = kFewest; }
  /// It did not: the run is over, and the next one has to be longer.
  void wasted() {
    run_ = 0;
    needed_ = std::min(2 * needed_, kMost);
  }

 private:
  static constexpr std::int64_t kFewest = 8;
  static constexpr std::int64_t kMost = 1 << 12;

  Deadline last_move_{};
  std::uint64_t opposite_ = 0;
  std::int64_t run_ = 0;
  std::int64_t needed_ = kFewest;
};

}  // namespace harmonics::inline in_transport
