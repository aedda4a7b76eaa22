// What benchmarks share: clocks, medians and rows.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// Whether the program was started with this word.
inline bool has_flag(int argc, char** argv, std::string_view flag) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == flag) return true;
  }
  return false;
}

inline double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Prints a row; whether the ratio keeps the bar, ">= x" or "<= x".
inline bool row(const std::string& name, const std::string& ours, const std::string& reference,
                double ratio, const std::string& bar) {
  std::printf("%s | %s | %s | %.3g | %s\n", name.c_str(), ours.c_str(), reference.c_str(), ratio,
              bar.c_str());
  std::fflush(stdout);
  const double limit = bar.size() < 2 ? 0 : std::strtod(bar.c_str() + 2, nullptr);
  return bar.starts_with("<=") ? ratio <= limit : ratio >= limit;
}

// What one round took.
struct Cost {
  double wall = 0;
  double cpu = 0;
};

inline Cost measured(const std::function<void()>& work) {
  const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  work();
  return {seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

}  // namespace bench
