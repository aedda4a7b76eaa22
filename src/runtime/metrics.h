// Metrics as JSON lines (private to runtime).
#pragma once

#include <filesystem>
#include <fstream>

#include <harmonics/runtime/trainer.h>

namespace harmonics::inline in_runtime {

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

}  // namespace harmonics::inline in_runtime
