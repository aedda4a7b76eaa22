// Any text is a trace, or machines, or an Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/replay/job_trace.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harmonics;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Trace trace = parse_trace(text, "fuzz");
    if (trace.jobs.empty() || trace.jobs.front().arrival != Nanoseconds{}) std::abort();
  } catch (const Error&) {
  }
  try {
    if (parse_nodes(text, "fuzz").empty()) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
