// Into how many micro-batches a batch is best cut: measured, before a run begins.
//
// More of them keep more parts busy at the same time, and make each pass smaller, which computes
// less per second. Where the two meet depends on graph and machine, so a few steps of each number
// are timed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_schedule {

/// One number that was tried.
struct TriedMicroBatches {
  std::int64_t micro_batches = 1;
  /// The shortest of its timed steps: what disturbs one makes it longer.
  double step_s = 0;
};

struct MicroBatchChoice {
  std::int64_t micro_batches = 1;
  /// In ascending order; empty where there was nothing to choose between.
  std::vector<TriedMicroBatches> tried = {};
};

struct MicroBatchTrial {
  /// Rows of a batch, and parts that its micro-batches pass at the same time.
  std::int64_t rows = 1;
  std::int64_t parts = 1;
  /// No step begins after this long.
  Nanoseconds most = std::chrono::seconds(8);
  /// Makes one step with a batch of `rows` cut into so many.
  std::function<void(std::int64_t micro_batches)> step;
};

/// The most that it tries, for each part.
inline constexpr std::int64_t kMicroBatchesPerPart = 8;
/// Timed steps of each number, after one that is not counted.
inline constexpr int kTimedSteps = 5;
/// More micro-batches than another number has must be faster by this share of the time.
inline constexpr double kWorthMore = 0.05;

/// Tries 1, 2, 4 and so on, up to kMicroBatchesPerPart for each part and one for each row, in turn
/// so that a disturbance hits all; numbers that are far behind drop out. What the step throws ends
/// it. One part has one micro-batch, and nothing is tried.
[[nodiscard]] MicroBatchChoice choose_micro_batches(const MicroBatchTrial& trial,
                                                    const Clock& clock);

/// "4 micro-batches of 64 rows: 1 makes 812 samples/s, 2 901, 4 950, 8 640".
[[nodiscard]] std::string choice_text(const MicroBatchChoice& choice, std::int64_t rows);

}  // namespace harmonics::inline in_schedule
