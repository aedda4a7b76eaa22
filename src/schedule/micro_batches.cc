#include <harmonics/schedule/micro_batches.h>

#include <algorithm>
#include <optional>

#include <harmonics/base/format.h>

namespace harmonics::inline in_schedule {
namespace {

// A number this many times slower than the best so far is not timed again.
constexpr double kFarBehind = 1.25;

struct Timed {
  std::int64_t micro_batches;
  std::vector<double> steps_s;  // the first one warms up

  [[nodiscard]] double shortest() const {
    return *std::min_element(steps_s.begin() + (steps_s.size() > 1 ? 1 : 0), steps_s.end());
  }
};

std::vector<Timed> candidates(const MicroBatchTrial& trial) {
  std::vector<Timed> all;
  const std::int64_t most = std::min(trial.rows, kMicroBatchesPerPart * trial.parts);
  for (std::int64_t count = 1; count <= most; count *= 2) all.push_back({count, {}});
  return all;
}

double best_of(const std::vector<Timed>& all) {
  double best = 0;
  for (const Timed& one : all) {
    if (!one.steps_s.empty() && (best == 0 || one.shortest() < best)) best = one.shortest();
  }
  return best;
}

}  // namespace

MicroBatchChoice choose_micro_batches(const MicroBatchTrial& trial, const Clock& clock) {
  MicroBatchChoice choice;
  if (trial.parts <= 1 || trial.rows <= 1) return choice;
  std::vector<Timed> all = candidates(trial);
  const Nanoseconds due = clock.now() + trial.most;
  for (int round = 0; round <= kTimedSteps; ++round) {
    const double best = best_of(all);
    for (Timed& one : all) {
      if (clock.now() >= due) break;
      if (round > 1 && one.shortest() > kFarBehind * best) continue;
      const Nanoseconds begun = clock.now();
      trial.step(one.micro_batches);
      one.steps_s.push_back(in_seconds(clock.now() - begun));
    }
  }
  std::optional<double> chosen_s;
  for (const Timed& one : all) {
    if (one.steps_s.empty()) continue;
    choice.tried.push_back({one.micro_batches, one.shortest()});
    if (chosen_s && one.shortest() > (1 - kWorthMore) * *chosen_s) continue;
    chosen_s = one.shortest();
    choice.micro_batches = one.micro_batches;
  }
  return choice;
}

std::string choice_text(const MicroBatchChoice& choice, std::int64_t rows) {
  const std::int64_t count = choice.micro_batches;
  std::string text = format("{} micro-batch{} of {} rows", count, count == 1 ? "" : "es",
                            (rows + count - 1) / count);
  for (std::size_t i = 0; i < choice.tried.size(); ++i) {
    const TriedMicroBatches& one = choice.tried[i];
    const double rate = static_cast<double>(rows) / std::max(one.step_s, 1e-9);
    text += i == 0 ? format(": {} makes {:.0f} samples/s", one.micro_batches, rate)
                   : format(", {} {:.0f}", one.micro_batches, rate);
  }
  return text;
}

}  // namespace harmonics::inline in_schedule
