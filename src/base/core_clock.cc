#include <harmonics/base/core_clock.h>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include <harmonics/base/number_text.h>

namespace harmonics::inline in_base {
namespace {

// Nanoseconds on a core, nanoseconds waiting for one, and turns, in one line.
constexpr const char* kThreadCounts = "/proc/thread-self/schedstat";

}  // namespace

CoreClock::CoreClock() : counts_(::open(kThreadCounts, O_RDONLY | O_CLOEXEC)) {}

CoreTimes CoreClock::now() const {
  CoreTimes times;
  timespec cpu{};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0) {
    times.cpu = std::chrono::seconds(cpu.tv_sec) + Nanoseconds(cpu.tv_nsec);
  }
  if (!counts_) return times;
  char line[96];
  const ssize_t got = ::pread(counts_.get(), line, sizeof line, 0);
  if (got <= 0) return times;
  std::string_view text(line, static_cast<std::size_t>(got));
  text.remove_prefix(std::min(text.size(), text.find(' ') + 1));
  const auto waited = number_from<std::int64_t>(text.substr(0, text.find(' ')));
  times.for_core = Nanoseconds(waited.value_or(0));
  return times;
}

}  // namespace harmonics::inline in_base
