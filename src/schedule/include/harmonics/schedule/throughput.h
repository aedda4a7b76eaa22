// How fast a part of a training goes, and how much of its time it computes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_schedule {

struct Throughput {
  double samples_per_second = 0;
  /// Shares of the time, 1 together: at work, and waiting for other parts. Not set where nobody
  /// counts waiting.
  std::optional<double> busy;
  std::optional<double> waiting;
  /// Busy seconds for one micro-batch, forward and back with its share of the update: the median
  /// over the last steps. Not set before there are enough of them.
  std::optional<double> micro_batch_s;
};

/// Steps that warm up and do not count, steps that a median needs, and the most that it is over.
inline constexpr std::size_t kWarmUpSteps = 3;
inline constexpr std::size_t kMeasuredSteps = 16;
inline constexpr std::size_t kMaxMeasuredSteps = 64;
/// Rates are those of the last seconds, from at most so many marks.
inline constexpr std::chrono::seconds kThroughputWindow{5};
inline constexpr std::size_t kMaxThroughputMarks = 64;

/// Told of every step; keeps no more than the constants say. One thread.
class ThroughputMeter {
 public:
  explicit ThroughputMeter(std::int64_t micro_batches) : micro_batches_(micro_batches) {}

  /// A step of so many samples has ended. `waited` is how long the part has waited in all.
  void add(Nanoseconds now, std::int64_t samples, std::optional<Nanoseconds> waited);
  /// Nothing before the second step: what came before the first was no training.
  [[nodiscard]] std::optional<Throughput> rates() const;

 private:
  struct Mark {
    Nanoseconds at{};
    std::int64_t samples = 0;  // in all
    std::optional<Nanoseconds> waited{};
  };
  void keep_mark(const Mark& mark);

  const std::int64_t micro_batches_;
  std::size_t steps_ = 0;
  Mark newest_;
  std::deque<Mark> marks_;        // oldest first, thinned out
  std::deque<Nanoseconds> busy_;  // of the last steps
};

}  // namespace harmonics::inline in_schedule
