// Metrics as JSON lines (private to schedule).
#pragma once

#include <filesystem>
#include <fstream>

#include <harmonics/schedule/trainer.h>

namespace harmonics::inline in_schedule {

/// Appends one JSON object per step and epoch to a file; does nothing for an empty path. A file
/// that cannot be written is an Error.
class MetricsFile {
 public:
  explicit MetricsFile(std::filesystem::path path);
  void write(const StepReport& report);
  void write(const EpochReport& report);

 private:
  void line(const std::string& text);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace harmonics::inline in_schedule
