#include "metrics.h"

#include <cerrno>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/schedule/report_json.h>

namespace harmonics::inline in_schedule {

MetricsFile::MetricsFile(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.empty()) return;
  file_.open(path_, std::ios::app);
  if (!file_) fail_errno(errno, format("cannot write metrics to '{}'", path_.string()));
}

void MetricsFile::write(const StepReport& report) {
  if (path_.empty()) return;
  Json json = report_json(report);
  if (report.gradient_norm > 0) json.set("gradient_norm", report.gradient_norm);
  if (!report.updated) json.set("skipped", true);
  line(json.dump());
}

void MetricsFile::write(const EpochReport& report) {
  if (!path_.empty()) line(report_json(report).dump());
}

void MetricsFile::line(const std::string& text) {
  file_ << text << '\n' << std::flush;
  if (!file_) fail_errno(errno, format("cannot write metrics to '{}'", path_.string()));
}

}  // namespace harmonics::inline in_schedule
