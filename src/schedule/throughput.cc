#include <harmonics/schedule/throughput.h>

#include <algorithm>
#include <vector>

namespace harmonics::inline in_schedule {
namespace {

// One mark lies before the window, and one at either end of it.
constexpr Nanoseconds kMarkPeriod = Nanoseconds(kThroughputWindow) / (kMaxThroughputMarks - 2);

}  // namespace

void ThroughputMeter::add(Nanoseconds now, std::int64_t samples,
                          std::optional<Nanoseconds> waited) {
  const Mark mark{now, newest_.samples + samples, waited};
  if (++steps_ > kWarmUpSteps && waited && newest_.waited) {
    busy_.push_back((now - newest_.at) - (*waited - *newest_.waited));
    if (busy_.size() > kMaxMeasuredSteps) busy_.pop_front();
  }
  newest_ = mark;
  keep_mark(mark);
}

// The oldest mark that is kept is the last one before the window, so that a step that takes longer
// than the window has its rate too.
void ThroughputMeter::keep_mark(const Mark& mark) {
  if (marks_.empty() || mark.at - marks_.back().at >= kMarkPeriod) marks_.push_back(mark);
  while (marks_.size() > 2 && mark.at - marks_[1].at >= kThroughputWindow) marks_.pop_front();
}

std::optional<Throughput> ThroughputMeter::rates() const {
  if (marks_.empty() || newest_.at <= marks_.front().at) return std::nullopt;
  const Mark& from = marks_.front();
  const double elapsed = in_seconds(newest_.at - from.at);
  Throughput rates;
  rates.samples_per_second = static_cast<double>(newest_.samples - from.samples) / elapsed;
  if (newest_.waited && from.waited) {
    rates.waiting = std::clamp(in_seconds(*newest_.waited - *from.waited) / elapsed, 0.0, 1.0);
    rates.busy = 1 - *rates.waiting;
  }
  if (busy_.size() >= kMeasuredSteps && micro_batches_ > 0) {
    std::vector<Nanoseconds> sorted(busy_.begin(), busy_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::ranges::nth_element(sorted, middle);
    rates.micro_batch_s = in_seconds(*middle) / static_cast<double>(micro_batches_);
  }
  return rates;
}

}  // namespace harmonics::inline in_schedule
