#include "run_texts.h"

#include <harmonics/base/file.h>

namespace harmonics::inline in_front {

MeasuredRun read_measured_run(const std::vector<std::string>& files) {
  std::vector<RunText> texts;
  for (const std::string& file : files) {
    texts.push_back({read_text_file(file, kMaxRunReportBytes), file});
  }
  return parse_measured_run(texts);
}

}  // namespace harmonics::inline in_front
