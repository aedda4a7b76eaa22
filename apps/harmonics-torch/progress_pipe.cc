#include "progress_pipe.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <harmonics/base/environment.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>
#include <harmonics/cluster/task_environment.h>

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::chrono::milliseconds kPeriod(250);

int descriptor_from_environment() {
  const int value = number_from<int>(environment_text(kProgressVariable)).value_or(-1);
  if (value < 0) return -1;
  const int flags = ::fcntl(value, F_GETFL);
  if (flags < 0) return -1;
  ::fcntl(value, F_SETFL, flags | O_NONBLOCK);
  ::signal(SIGPIPE, SIG_IGN);
  return value;
}

/// To three places: more digits are noise.
double rounded(double value) { return std::round(value * 1e3) / 1e3; }

}  // namespace

ProgressPipe::ProgressPipe(Run run, const Clock& clock)
    : descriptor_(descriptor_from_environment()),
      run_(std::move(run)),
      clock_(clock),
      meter_(run_.micro_batches) {}

void ProgressPipe::write(Json json) {
  if (const auto rates = meter_.rates()) {
    json.set("samples_per_second", rounded(rates->samples_per_second));
    if (rates->busy) json.set("busy", rounded(*rates->busy));
    if (rates->waiting) json.set("waiting", rounded(*rates->waiting));
    if (largest_ > 0 && rates->samples_per_second > 0) {
      const double steps = rates->samples_per_second / static_cast<double>(largest_);
      json.set("period_s", 1 / (steps * static_cast<double>(run_.micro_batches)));
    }
    if (rates->micro_batch_s) json.set("micro_batch_s", *rates->micro_batch_s);
  }
  const std::string line = json.dump() + "\n";
  // One write of less than PIPE_BUF bytes is whole or not at all.
  if (::write(descriptor_, line.data(), line.size()) < 0 && errno == EPIPE) descriptor_ = -1;
}

bool ProgressPipe::is_due(std::int64_t samples) {
  if (descriptor_ < 0) return false;
  const Nanoseconds now = clock_.now();
  largest_ = std::max(largest_, samples);
  meter_.add(now, samples, run_.waited ? std::optional(run_.waited()) : std::nullopt);
  if (now - written_ < kPeriod) return false;
  written_ = now;
  return true;
}

void ProgressPipe::on_rows(const Rows& rows) {
  if (is_due(rows.batch)) write_rows(rows);
}

void ProgressPipe::on_last_rows(const Rows& rows) {
  if (descriptor_ >= 0) write_rows(rows);
}

void ProgressPipe::write_rows(const Rows& rows) {
  Json json;
  const std::int64_t out = rows.before + rows.done;
  if (rows.all > 0) {
    json.set("progress", static_cast<double>(out) / static_cast<double>(rows.all));
  }
  write(std::move(json.set("rows", out)));
}

void ProgressPipe::on_step(const StepReport& step) {
  if (!is_due(step.samples)) return;
  Json json;
  if (step.batches_in_epoch && *step.batches_in_epoch > 0 && run_.epochs > 0) {
    const double done =
        static_cast<double>(step.epoch - 1) +  // counted from 1
        static_cast<double>(step.batch) / static_cast<double>(*step.batches_in_epoch);
    json.set("progress", done / static_cast<double>(run_.epochs));
  }
  json.set("epoch", step.epoch).set("step", step.step);
  if (step.loss) json.set("loss", *step.loss);
  if (step.accuracy) json.set("accuracy", *step.accuracy);
  write(std::move(json));
}

void ProgressPipe::on_epoch(const EpochReport& epoch) {
  if (descriptor_ < 0) return;
  Json json;
  if (run_.epochs > 0) {
    json.set("progress", static_cast<double>(epoch.epoch) / static_cast<double>(run_.epochs));
  }
  json.set("epoch", epoch.epoch);
  if (epoch.train_loss) json.set("train_loss", *epoch.train_loss);
  if (epoch.train_accuracy) json.set("train_accuracy", *epoch.train_accuracy);
  if (epoch.evaluation) {
    json.set("test_loss", epoch.evaluation->loss);
    if (epoch.evaluation->accuracy) json.set("test_accuracy", *epoch.evaluation->accuracy);
  }
  write(std::move(json));
}

}  // namespace harmonics::inline in_torch_program
