// What benchmarks share: clocks and medians.
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>
#include <vector>

namespace bench {

inline double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
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
