// Where a GPU's time goes, as libtorch's profiler (Kineto) sees it.
#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// In nanoseconds; libtorch before 2.3 counts microseconds.
template <typename Event>
std::pair<double, double> begin_and_length(const Event& event) {
  if constexpr (requires { event.startNs(); }) {
    return {static_cast<double>(event.startNs()), static_cast<double>(event.durationNs())};
  } else {
    return {1e3 * static_cast<double>(event.startUs()),
            1e3 * static_cast<double>(event.durationUs())};
  }
}

/// Of the time from the first span to the last, how much is in one of them or more.
inline double busy_share(std::vector<std::pair<double, double>> spans) {
  if (spans.empty()) return 0;
  std::sort(spans.begin(), spans.end());
  double busy = 0, until = spans.front().first;
  for (const auto& [begin, length] : spans) {
    busy += std::max(0.0, begin + length - std::max(until, begin));
    until = std::max(until, begin + length);
  }
  return busy / (until - spans.front().first);
}

/// Calls `step` `steps` times, which has to wait for the GPU in the last; prints what ran longest
/// there, how busy the GPU was, and how often a thread waited for it.
inline void print_kernels(const std::string& title, int steps, const std::function<void()>& step) {
  namespace profiler = torch::autograd::profiler;
  using torch::profiler::impl::ActivityType, torch::profiler::impl::ProfilerConfig;
  const ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU, ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  for (int i = 0; i < steps; ++i) step();
  const auto result = profiler::disableProfiler();
  struct Sum {
    int count = 0;
    double time = 0;
  };
  std::map<std::string, Sum> kernels;
  std::vector<std::pair<double, double>> spans;
  int waits = 0;
  double total = 0;
  for (const auto& event : result->events()) {
    const std::string name = event.name();
    if (event.deviceType() != c10::DeviceType::CUDA) {
      waits += name.starts_with("cuda") && name.ends_with("Synchronize");
      continue;
    }
    spans.push_back(begin_and_length(event));
    Sum& sum = kernels[name.substr(0, 110)];
    ++sum.count;
    sum.time += spans.back().second;
    total += spans.back().second;
  }
  std::vector<std::pair<double, std::string>> longest;
  for (const auto& [name, sum] : kernels) longest.emplace_back(-sum.time, name);
  std::sort(longest.begin(), longest.end());
  std::printf("%s: %.3f ms of kernels in a step, busy %.3f, %.1f waits in a step\n", title.c_str(),
              1e-6 * total / steps, busy_share(std::move(spans)),
              static_cast<double>(waits) / steps);
  for (std::size_t i = 0; i < std::min<std::size_t>(longest.size(), 32); ++i) {
    const Sum& sum = kernels[longest[i].second];
    std::printf("  %8.3f ms %6.1f x %s\n", 1e-6 * sum.time / steps,
                static_cast<double>(sum.count) / steps, longest[i].second.c_str());
  }
  std::fflush(stdout);
}

}  // namespace bench
