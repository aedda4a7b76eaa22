#include "metrics.h"

#include <cerrno>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

namespace harmonics::inline in_schedule {

MetricsFile::MetricsFile(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.empty()) return;
  file_.open(path_, std::ios::app);
  if (!file_) fail_errno(errno, format("cannot write metrics to '{}'", path_.string()));
}

void MetricsFile::write(const StepReport& report) {
  if (path_.empty()) return;
  Json json;
  json.set("step", report.step).set("epoch", report.epoch).set("samples", report.samples);
  if (report.loss) json.set("loss", *report.loss);
  if (report.accuracy) json.set("accuracy", *report.accuracy);
  json.set("learning_rate", report.learning_rate);
  if (report.gradient_norm > 0) json.set("gradient_norm", report.gradient_norm);
  if (!report.updated) json.set("skipped", true);
  line(json.dump());
}

void MetricsFile::write(const EpochReport& report) {
  if (path_.empty()) return;
  Json json;
  json.set("epoch_done", report.epoch).set("steps", report.steps).set("samples", report.samples);
  if (report.train_loss) json.set("train_loss", *report.train_loss);
  if (report.train_accuracy) json.set("train_accuracy", *report.train_accuracy);
  if (report.evaluation) {
    json.set("test_loss", report.evaluation->loss);
    if (report.evaluation->accuracy) json.set("test_accuracy", *report.evaluation->accuracy);
  }
  line(json.dump());
}

void MetricsFile::line(const std::string& text) {
  file_ << text << '\n' << std::flush;
  if (!file_) fail_errno(errno, format("cannot write metrics to '{}'", path_.string()));
}

}  // namespace harmonics::inline in_schedule
