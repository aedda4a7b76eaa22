// AdaptiveScheduler on devices of which it knows nothing: the worst that a bad one may cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include <harmonics/base/random.h>
#include <harmonics/dispatch/adaptive_scheduler.h>

#include "emulation_testing.h"
#include "events_testing.h"

namespace harmonics::inline in_dispatch {
namespace {

using Devices = std::vector<std::string>;

constexpr double kBar = 1.05;

double total_rate(const Devices& devices) { return full_rate(AdaptiveScheduler(devices)); }

// The best that a user who knows the devices gets by choosing among them: every subset, learned.
double best_subset_seconds(const Devices& devices, std::size_t rows) {
  double best = 1e30;
  for (std::size_t mask = (1U << devices.size()) - 1; mask > 0; --mask) {
    Devices chosen;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if ((mask >> d & 1U) != 0) chosen.push_back(devices[d]);
    }
    if (static_cast<double>(rows) / total_rate(chosen) >= best) continue;  // cannot be better
    AdaptiveScheduler warm(chosen);
    (void)event_seconds(warm, rows);
    best = std::min(best, event_seconds(warm, rows));
  }
  return best;
}

struct Worst {
  double ratio = 0;
  std::string where;
  void add(double seconds, double best, const Devices& devices, std::size_t rows) {
    if (seconds / best <= ratio) return;
    ratio = seconds / best;
    where = format("{} rows in {:.4g} s, the best subset takes {:.4g} s:", rows, seconds, best);
    for (const std::string& device : devices) where += " " + device;
  }
};

TEST(ColdStart, TheDispatcherIsHardlySlowerWithASlowDeviceThanWithoutIt) {
  constexpr std::size_t kRows = 5'000'000;
  for (const char* slow : {"1e5", "1e4", "1e3", "1e2"}) {
    AdaptiveScheduler alone(Devices{"emulated:1e7,100us"});
    AdaptiveScheduler both(Devices{"emulated:1e7,100us", format("emulated:{},0", slow)});
    (void)simulated_seconds(alone, kRows);
    EXPECT_LE(simulated_seconds(both, kRows), kBar * simulated_seconds(alone, kRows)) << slow;
  }
}

TEST(ColdStart, NeverMuchWorseThanTheBestSubsetOverAGridOfRatesAndLatencies) {
  const std::vector<std::string> rates = {"1e2", "1e3", "1e4", "1e5", "1e6", "1e7"};
  const std::vector<std::string> latencies = {"0", "100us", "1ms", "5ms"};
  Devices kinds;
  for (const std::string& rate : rates) {
    for (const std::string& latency : latencies) {
      kinds.push_back(format("emulated:{},{}", rate, latency));
    }
  }
  Worst worst;
  for (const std::string& one : kinds) {
    for (const std::string& other : kinds) {
      for (const double seconds : {1.0, 5.0}) {
        const Devices devices = {one + "#a", other + "#b"};
        const auto rows = static_cast<std::size_t>(seconds * total_rate(devices));
        AdaptiveScheduler cold(devices);
        worst.add(event_seconds(cold, rows), best_subset_seconds(devices, rows), devices, rows);
      }
    }
  }
  EXPECT_LE(worst.ratio, kBar) << worst.where;
  std::printf("worst: %.4f, %s\n", worst.ratio, worst.where.c_str());
}

// A device whose first row would take a hundred times as long as the run.
TEST(ColdStart, NorBesideADeviceThatNeverComesBackInTimeWhenLateWorkIsRepeated) {
  Worst worst;
  for (const char* rate : {"1e2", "1e4", "1e6", "1e7"}) {
    for (const char* latency : {"0", "100us", "1ms", "5ms"}) {
      for (const char* late : {"1e2", "1e4", "1e7"}) {
        const std::string good = format("emulated:{},{}", rate, latency);
        const Devices devices = {format("emulated:{},100s", late), good + "#a", good + "#b"};
        const auto rows = static_cast<std::size_t>(2 * total_rate({good}));
        AdaptiveScheduler cold(AdaptiveConfig{.devices = devices, .repeat_late = true});
        worst.add(event_seconds(cold, rows), best_subset_seconds({good + "#a", good + "#b"}, rows),
                  devices, rows);
      }
    }
  }
  EXPECT_LE(worst.ratio, kBar) << worst.where;
  std::printf("worst: %.4f, %s\n", worst.ratio, worst.where.c_str());
}

TEST(ColdStart, NorWithSeveralDevicesOfAnyKindAndAnyFirstSizes) {
  Worst worst;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Random random(seed, "cold start");
    const auto uniform = [&] { return static_cast<double>(random.uniform()); };
    Devices devices;
    for (std::uint64_t d = 0, count = 2 + random.below(3); d < count; ++d) {
      devices.push_back(format("emulated:{:.4g},{:.4g}#{}", std::pow(10, 2 + 5 * uniform()),
                               5e-3 * uniform() * uniform(), d));
    }
    const auto rows = static_cast<std::size_t>((1 + 4 * uniform()) * total_rate(devices));
    AdaptiveConfig config{.devices = devices};
    if (random.below(2) == 0) config.first_batches = {1 + random.below(100'000)};
    AdaptiveScheduler cold(config);
    worst.add(event_seconds(cold, rows), best_subset_seconds(devices, rows), devices, rows);
  }
  EXPECT_LE(worst.ratio, kBar) << worst.where;
  std::printf("worst: %.4f, %s\n", worst.ratio, worst.where.c_str());
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
