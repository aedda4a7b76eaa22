#include "process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

/// Seconds from the boot to the start of this process: field 22 of /proc/self/stat, in ticks.
double start_after_boot() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The second field is the program's name in brackets and may hold anything.
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const long ticks = ::sysconf(_SC_CLK_TCK);
  if (!fields || ticks <= 0) return 0;
  return std::stod(field) / static_cast<double>(ticks);
}

double boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

ProcessFigures process_figures() {
  ProcessFigures figures;
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    figures.cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  }
  std::ifstream sizes("/proc/self/statm");
  std::uint64_t all_pages = 0;
  std::uint64_t resident_pages = 0;
  if (sizes >> all_pages >> resident_pages) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    figures.virtual_bytes = all_pages * page;
    figures.resident_bytes = resident_pages * page;
  }
  std::error_code error;
  for (fs::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++figures.descriptors;
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.max_descriptors = limit.rlim_cur;
  const double boot = boot_time();
  if (boot > 0) figures.started_s = boot + start_after_boot();
  return figures;
}

}  // namespace harmonics::inline in_server
