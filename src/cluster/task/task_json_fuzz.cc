// Any text is a task or an Error; a task that was read is written and read again unchanged.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/cluster/task.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harmonics;
  try {
    const TaskSpec spec =
        parse_task(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    if (parse_task(write_task(spec), "again") != spec) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
