#include "train_progress.h"

#include <algorithm>
#include <chrono>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval(100);
constexpr int kMinBarWidth = 5;
constexpr int kMaxBarWidth = 30;

std::string epoch_number(std::int64_t epoch, std::int64_t epochs) {
  const std::string all = std::to_string(epochs);
  return format("epoch {:>{}}/{}", epoch, all.size(), all);
}

std::string measured(const std::string& prefix, std::optional<double> loss,
                     std::optional<double> accuracy) {
  std::string text;
  if (loss) text += format("  {}loss {}", prefix, as_loss(*loss));
  if (accuracy) text += format("  {}accuracy {}", prefix, as_percent(*accuracy));
  return text;
}

}  // namespace

TrainProgress::TrainProgress(std::int64_t epochs, std::int64_t epochs_done, const Clock& clock)
    : epochs_(epochs),
      epochs_done_(epochs_done),
      clock_(clock),
      live_(is_terminal(TextStream::kError)),
      colour_(wants_colour(TextStream::kError)),
      started_(clock.now()),
      epoch_started_(started_) {}

TrainProgress::~TrainProgress() {
  try {
    clear();
  } catch (const Error&) {
    // Standard error is gone: nobody sees the bar either.
  }
}

double TrainProgress::seconds_since(Nanoseconds start) const {
  return std::max(1e-9, in_seconds(clock_.now() - start));
}

void TrainProgress::pause() { paused_ = clock_.now(); }

void TrainProgress::on_step(const StepReport& step) {
  const auto samples = static_cast<double>(step.samples);
  epoch_samples_ += step.samples;
  loss_sum_ += step.loss.value_or(0) * samples;
  accuracy_sum_ += step.accuracy.value_or(0) * samples;
  if (paused_) {
    const Nanoseconds passed = clock_.now() - *paused_;
    started_ += passed;
    epoch_started_ += passed;
    paused_.reset();
    return;
  }
  if (samples_ == 0) first_batch_ = step.batch - 1;
  samples_ += step.samples;
  epoch_timed_ += step.samples;
  if (!live_ || (shown_ && clock_.now() - drawn_ < kRedrawInterval)) return;
  drawn_ = clock_.now();
  shown_ = true;
  write_text(TextStream::kError, format("\r{}\x1b[K", bar_line(step)));
}

std::string TrainProgress::bar_line(const StepReport& step) const {
  const double batches = static_cast<double>(step.batches_in_epoch.value_or(1));
  const auto batch = static_cast<double>(step.batch);
  const double here = batch - static_cast<double>(first_batch_);
  const double steps_done = static_cast<double>(step.epoch - 1 - epochs_done_) * batches + here;
  const double steps_left = static_cast<double>(epochs_ - step.epoch + 1) * batches - batch;
  const double seconds = seconds_since(started_);
  const auto samples = static_cast<double>(epoch_samples_);
  std::string rest;
  if (step.loss) rest += format("  loss {}", as_loss(loss_sum_ / samples));
  if (step.accuracy) rest += format("  acc {:5.1f} %", 100 * accuracy_sum_ / samples);
  rest += format("  {:>6} samples/s  {:>5} left", as_rate(static_cast<double>(samples_) / seconds),
                 as_duration(seconds / steps_done * steps_left));
  const std::string head = epoch_number(step.epoch, epochs_) + " ";
  // A line as wide as the terminal would wrap and could not be drawn over.
  const int space =
      terminal_width(TextStream::kError) - static_cast<int>(head.size() + rest.size()) - 3;
  if (space < kMinBarWidth) return (head + rest).substr(0, terminal_width(TextStream::kError) - 1);
  return head + progress_bar(batch / batches, std::min(space, kMaxBarWidth), colour_) + rest;
}

void TrainProgress::on_epoch(const EpochReport& epoch) {
  std::string line = epoch_number(epoch.epoch, epochs_);
  line += measured("", epoch.train_loss, epoch.train_accuracy);
  if (epoch.evaluation)
    line += measured("test ", epoch.evaluation->loss, epoch.evaluation->accuracy);
  if (epoch_timed_ > 0) {
    line += format("  {} samples/s",
                   as_rate(static_cast<double>(epoch_timed_) / seconds_since(epoch_started_)));
  }
  line += "\n";
  clear();
  write_text(TextStream::kError, line);
  epoch_started_ = clock_.now();
  epoch_samples_ = 0;
  epoch_timed_ = 0;
  loss_sum_ = 0;
  accuracy_sum_ = 0;
}

void TrainProgress::clear() {
  if (shown_) write_text(TextStream::kError, "\r\x1b[K");
  shown_ = false;
}

}  // namespace harmonics::inline in_torch_program
