// AdaptiveScheduler on emulated devices under simulated time: throughput, tail, memory, loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>

#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>

#include <temporary_folder_testing.h>

#include "emulation_testing.h"
#include "equal_finish.h"
#include "scheduler_testing.h"

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string> kTwenty = {"emulated:2e6,1ms", "emulated:1e5,100us"};
const std::vector<std::string> kThree = {"emulated:2e6,1ms", "emulated:1e6,1ms",
                                         "emulated:1e5,100us"};

// Rows per second over those of all devices alone with no latency, in simulated time.
double efficiency(WorkScheduler& scheduler, double seconds, Fault fault = nullptr) {
  const auto rows = static_cast<std::size_t>(full_rate(scheduler) * seconds);
  return seconds / simulated_seconds(scheduler, rows, std::move(fault));
}

class AdaptiveFiles : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

// --- throughput: simulated time, so the figures are the same on every machine ---

TEST(Adaptive, UsesAllDevicesFullyFromAnyStart) {
  for (const auto& devices : {kTwenty, kThree}) {
    for (const std::size_t first : {0UL, 1UL, 1000UL, 100'000'000UL}) {
      AdaptiveConfig config{.devices = devices};
      if (first > 0) config.first_batches = {first};
      AdaptiveScheduler cold(config);
      EXPECT_GE(efficiency(cold, 1), 0.95) << devices.size() << " devices, first " << first;
      EXPECT_GE(efficiency(cold, 1), 0.95) << "warm";
    }
  }
}

TEST(Adaptive, BeatsFixedSizesThatAreWrong) {
  AdaptiveScheduler adaptive(kTwenty);
  StaticHybridScheduler fixed(kTwenty, {50'000});
  EXPECT_GE(efficiency(adaptive, 1) / efficiency(fixed, 1), 1.2);
}

TEST(StaticHybridOnDevices, IsFastWhenTuned) {
  StaticHybridScheduler two(kTwenty, {60'000, 1000}, {120'000, 2000}, {2, 1});
  EXPECT_GE(efficiency(two, 1), 0.93);
  StaticHybridScheduler three(kThree, {60'000, 30'000, 1000}, {120'000, 60'000, 2000}, {3, 2, 1});
  EXPECT_GE(efficiency(three, 1), 0.93);
}

TEST(Adaptive, AManyTimesSlowerDeviceDoesNotDelayTheEnd) {
  AdaptiveScheduler scheduler(std::vector<std::string>{"emulated:1e6,100us", "emulated:500,1ms"});
  EXPECT_GE(efficiency(scheduler, 2), 0.93) << "cold: the first probe of the slow one counts";
  EXPECT_GE(efficiency(scheduler, 2), 0.97);
}

TEST(Adaptive, ALatencyOfHalfTheRunDoesNotDelayTheEnd) {
  AdaptiveScheduler alone(std::vector<std::string>{"emulated:2e5,500us"});
  AdaptiveScheduler both(std::vector<std::string>{"emulated:2e5,500us", "emulated:3000,170ms"});
  constexpr std::size_t kRows = 65'536;
  for (int round = 0; round < 6; ++round) {
    const double fast = simulated_seconds(alone, kRows), together = simulated_seconds(both, kRows);
    if (round == 0) continue;  // still learning
    EXPECT_LE(together, 1.03 * fast) << "round " << round;
  }
}

// A slow device that takes two and a half times as long now and then: what it is given must not be
// what everybody waits for.
TEST(Adaptive, ADeviceThatCannotBeReliedOnSeldomDelaysTheEnd) {
  auto timeline = std::make_shared<SimulatedTimeline>();
  Random random(5, "unreliable");
  const Fault varies = [&](const Slice& slice, const WorkDevice& device) {
    if (device.rows_per_second > 1e4) return;  // only one lane draws: no race
    const double share = random.below(3) == 0 ? 1.5 : 0;
    const double extra = share * (0.17 + static_cast<double>(slice.size()) / 3000);
    timeline->pause_until(timeline->now() + Nanoseconds(static_cast<std::int64_t>(1e9 * extra)),
                          slice.start);
  };
  AdaptiveScheduler alone(std::vector<std::string>{"emulated:2e5,500us"});
  AdaptiveScheduler both(std::vector<std::string>{"emulated:2e5,500us", "emulated:3000,170ms"});
  constexpr std::size_t kRows = 65'536;
  (void)simulated_seconds(alone, kRows);
  const double fast = simulated_seconds(alone, kRows);
  (void)simulated_seconds(both, kRows, varies, timeline);  // learns
  double sum = 0;
  for (int round = 0; round < 20; ++round) {
    sum += simulated_seconds(both, kRows, varies, timeline);
  }
  EXPECT_LE(sum / 20, 1.06 * fast);
}

TEST(Adaptive, FindsTheSmallestSubBatchThatIsNearlyAsFast) {
  AdaptiveScheduler scheduler(kTwenty);
  (void)efficiency(scheduler, 1);
  const std::vector<DeviceKnowledge> known = scheduler.knowledge();
  EXPECT_NEAR(known[0].latency_s, 1e-3, 2e-5);
  EXPECT_NEAR(known[0].rows_per_second, 2e6, 2e4);
  EXPECT_NEAR(static_cast<double>(known[0].best_batch), 2e3 * 0.97 / 0.03, 3000);
  EXPECT_NEAR(known[1].rows_per_second, 1e5, 2e3);
}

// Work that takes up to a third longer than the device says, at random.
TEST(Adaptive, StaysEfficientWhenTimesVary) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    auto timeline = std::make_shared<SimulatedTimeline>();
    std::mutex mutex;
    Random random(seed, "noise");
    AdaptiveScheduler scheduler(kThree);
    const auto rows = static_cast<std::size_t>(full_rate(scheduler));
    const Fault varies = [&](const Slice& slice, const WorkDevice& device) {
      double share = 0;
      {
        const std::lock_guard lock(mutex);
        share = 0.3 * static_cast<double>(random.uniform());
      }
      const double extra = share * static_cast<double>(slice.size()) / device.rows_per_second;
      timeline->pause_until(timeline->now() + Nanoseconds(static_cast<std::int64_t>(1e9 * extra)),
                            slice.start);
    };
    const double seconds = simulated_seconds(scheduler, rows, varies, timeline);
    EXPECT_LE(seconds, 1.15 * 1.06) << "a mean of 15 % more, seed " << seed;
  }
}

// --- failures ---

TEST(Adaptive, OutOfMemoryHalvesAndIsRemembered) {
  const LogCapture log;
  AdaptiveScheduler scheduler(kTwenty);
  const double free = efficiency(scheduler, 1);
  const std::size_t limit = scheduler.knowledge()[0].best_batch / 8;
  int refused = 0;
  const Fault small_memory = [&](const Slice& slice, const WorkDevice& device) {
    if (device.rows_per_second < 1e6 || slice.size() <= limit) return;
    ++refused;  // one lane per device: no race
    fail(ErrorCode::kResourceExhausted, "{} rows are too many", slice.size());
  };
  const double bound = efficiency(scheduler, 1, small_memory);
  // Sub-batches of an eighth pay the latency eight times as often.
  const double latency_share = 1e-3 / (static_cast<double>(limit / 2) / 2e6);
  EXPECT_GE(bound, free / (1.1 + latency_share));
  EXPECT_LE(refused, 5);
  EXPECT_LE(scheduler.knowledge()[0].ceiling_rows, limit);
  refused = 0;
  (void)efficiency(scheduler, 1, small_memory);
  EXPECT_EQ(refused, 0) << "the next run knows";
}

TEST(Adaptive, ARowThatFitsNowhereIsAnError) {
  const LogCapture log;
  AdaptiveScheduler scheduler(kTwenty);
  EXPECT_THAT(error_of([&] {
                (void)simulated_seconds(scheduler, 1000, [](const Slice&, const WorkDevice&) {
                  fail(ErrorCode::kResourceExhausted, "no memory at all");
                });
              }),
              HasSubstr("no memory at all"));
}

TEST(Adaptive, ALostDevicesWorkGoesElsewhereAndItIsTriedAgain) {
  const LogCapture log;
  AdaptiveScheduler scheduler(kThree);
  auto timeline = std::make_shared<SimulatedTimeline>();
  bool dead = true;
  const Fault dies = [&](const Slice&, const WorkDevice& device) {
    if (dead && device.rows_per_second == 1e6 && timeline->now() > std::chrono::milliseconds(400)) {
      fail(ErrorCode::kUnavailable, "the device has fallen off the bus");
    }
  };
  const std::size_t rows = 3'100'000;
  const double seconds = simulated_seconds(scheduler, rows, dies, timeline);
  const double ideal = 0.4 + (3.1e6 - 0.4 * 3.1e6) / 2.1e6;
  EXPECT_LE(seconds, 1.15 * ideal);
  EXPECT_TRUE(scheduler.knowledge()[1].quarantined);
  EXPECT_THAT(log.lines(), ::testing::Contains(HasSubstr("fallen off the bus")));

  dead = false;
  EXPECT_LE(simulated_seconds(scheduler, rows, dies, timeline), 1.1) << "it is back";
  EXPECT_FALSE(scheduler.knowledge()[1].quarantined);
}

TEST(Adaptive, WhenAllDevicesAreLostTheErrorNamesThem) {
  const LogCapture log;
  AdaptiveScheduler scheduler(kTwenty);
  EXPECT_THAT(
      error_of([&] {
        (void)simulated_seconds(scheduler, 1000, [](const Slice&, const WorkDevice&) {
          fail(ErrorCode::kUnavailable, "gone");
        });
      }),
      AllOf(HasSubstr("unavailable"), HasSubstr("1000 of 1000 rows"),
            HasSubstr("'emulated:2e6,1ms': gone"), HasSubstr("'emulated:1e5,100us': gone")));
}

TEST(Adaptive, RowsThatKillEveryDeviceEndTheRun) {
  const LogCapture log;
  std::vector<std::string> devices;
  for (int d = 0; d < 6; ++d) devices.push_back(format("emulated:1e6,0#{}", d));
  AdaptiveScheduler scheduler(AdaptiveConfig{.devices = devices, .max_attempts = 2});
  EXPECT_THAT(error_of([&] {
                (void)simulated_seconds(scheduler, 6000, [](const Slice& slice, const WorkDevice&) {
                  if (slice.start == 0) fail(ErrorCode::kUnavailable, "poisonous rows");
                });
              }),
              HasSubstr("poisonous rows"));
  int lost = 0;
  for (const DeviceKnowledge& one : scheduler.knowledge()) lost += one.quarantined ? 1 : 0;
  EXPECT_EQ(lost, 3) << "the first attempt and two more";
}

TEST(Adaptive, AnErrorOfTheWorkIsNotRetried) {
  AdaptiveScheduler scheduler(kTwenty);
  int calls = 0;
  EXPECT_THROW((void)simulated_seconds(scheduler, 1,
                                       [&](const Slice&, const WorkDevice&) {
                                         ++calls;
                                         throw std::domain_error("negative pressure");
                                       }),
               std::domain_error);
  EXPECT_EQ(calls, 1);
}

TEST(Adaptive, AnIdleDeviceTakesOverWhatWaitsElsewhere) {
  AdaptiveScheduler scheduler(std::vector<std::string>{"emulated:1e6,0#a", "emulated:1e6,0#b"});
  (void)efficiency(scheduler, 1);
  std::vector<DeviceLoad> loads(2);
  loads[0] = {.running_rows = 1000,
              .queued_rows = 10'000,
              .running = 1,
              .queued = 1,
              .last_queued_rows = 10'000};
  const RunView view{.now = Nanoseconds(0), .total_rows = 20'000, .left_rows = 0, .devices = loads};
  const std::optional<WorkAssignment> steal = scheduler.assign(view);
  ASSERT_TRUE(steal);
  EXPECT_EQ(steal->device, 1U);
  EXPECT_EQ(steal->from, 0U);
  EXPECT_NEAR(static_cast<double>(steal->rows), 5500, 60) << "both are done after 5500 rows";
}

TEST(Adaptive, LateWorkIsRepeatedAndCountsOnce) {
  const auto timeline = std::make_shared<SimulatedTimeline>();
  AdaptiveScheduler scheduler(AdaptiveConfig{
      .devices = {"emulated:1e5,0", "emulated:1e6,1000s#late"}, .repeat_late = true});
  Nanoseconds first{0}, last{0};  // of one lane
  RowDispatcher dispatcher(scheduler,
                           {.run =
                                [&](Slice&& slice, const WorkDevice& device) {
                                  if (device.latency < std::chrono::seconds(1)) {
                                    last = timeline->now();
                                    if (first.count() == 0) first = last;
                                  }
                                  return rows_of_slice(slice);
                                },
                            .reduce = join},
                           {.timeline = timeline});
  for (int round = 0; round < 3; ++round) {
    first = Nanoseconds(0);
    SliceGenerator slices(0, 50'000);
    EXPECT_EQ(dispatcher.run(slices), rows_of_slice({0, 50'000}));
    EXPECT_LE(last - first, std::chrono::milliseconds(510)) << "round " << round;
  }
}

// On the machine's time: a device that hangs until after the run.
TEST(Adaptive, ARunDoesNotWaitForADeviceThatHangs) {
  std::latch release(1);
  std::atomic<int> hung = 0;
  AdaptiveScheduler scheduler(
      AdaptiveConfig{.devices = {"cpu", "emulated:1e9,0"}, .repeat_late = true});
  RowDispatcher dispatcher(scheduler, {.run =
                                           [&](Slice&& slice, const WorkDevice& device) {
                                             if (device.name == "cpu" && hung++ == 0) {
                                               release.wait();
                                             }
                                             return rows_of_slice(slice);
                                           },
                                       .reduce = join});
  for (int round = 0; round < 2; ++round) {
    auto slices = std::make_unique<SliceGenerator>(0, 1000);
    EXPECT_EQ(dispatcher.run(*slices), rows_of_slice({0, 1000})) << "round " << round;
    slices.reset();  // what hangs has its input already
  }
  EXPECT_EQ(hung, 1);
  release.count_down();
}

TEST(Adaptive, AnErrorOfWorkThatIsLateIsDropped) {
  std::latch release(1);
  AdaptiveScheduler scheduler(
      AdaptiveConfig{.devices = {"cpu", "emulated:1e9,0"}, .repeat_late = true});
  RowDispatcher dispatcher(scheduler, {.run = [&](Slice&& slice, const WorkDevice& device) -> Rows {
                                         if (device.name == "cpu") {
                                           release.wait();
                                           throw std::domain_error("too late");
                                         }
                                         return rows_of_slice(slice);
                                       },
                                       .reduce = join});
  SliceGenerator slices(0, 1000);
  EXPECT_EQ(dispatcher.run(slices), rows_of_slice({0, 1000}));
  release.count_down();
}

// 10,000 rows at 1e5 rows per second keep the device busy for 100 ms.
TEST(Adaptive, ABusyDeviceGetsItsNextWorkShortlyBeforeItNeedsIt) {
  AdaptiveScheduler scheduler(std::vector<std::string>{"emulated:1e5,100us"});
  (void)efficiency(scheduler, 1);
  const auto after = [&](std::chrono::milliseconds passed) {
    const std::vector<DeviceLoad> loads = {
        {.running_rows = 10'000, .running = 1, .oldest_start = std::chrono::seconds(1)}};
    return scheduler.assign({.now = std::chrono::seconds(1) + passed,
                             .total_rows = 1'000'000,
                             .left_rows = 500'000,
                             .devices = loads});
  };
  EXPECT_FALSE(after(std::chrono::milliseconds(0)));
  EXPECT_FALSE(after(std::chrono::milliseconds(90)))
      << "10 ms are long: others may be free by then";
  const std::optional<WorkAssignment> next = after(std::chrono::milliseconds(97));
  ASSERT_TRUE(next) << "it would idle";
  EXPECT_GT(next->rows, 0U);
}

// The first sub-batch of a run takes 300 ms on a device with two lanes, where the ones that
// overlap keep it busy for 30 ms each.
TEST(Adaptive, WhatOverlapsNothingYetIsNotTakenForSlow) {
  constexpr std::size_t kRows = 29'000;
  constexpr auto at = [](int ms) { return Nanoseconds(std::chrono::milliseconds(ms)); };
  std::vector<DeviceLoad> loads = {{.lanes = 2}};
  const RunView view{.total_rows = 100 * kRows, .left_rows = 100 * kRows, .devices = loads};
  const std::vector<std::string> device = {"emulated:1e6,1ms"};
  AdaptiveScheduler cold(device), warm(device);
  cold.begin_run(view);
  cold.finished({.rows = kRows, .started = at(100), .ended = at(400)});
  EXPECT_TRUE(cold.knowledge()[0].known) << "of an unknown device anything is news";

  const auto rate = [&] { return warm.knowledge()[0].rows_per_second; };
  (void)efficiency(warm, 1);
  const double known = rate();
  EXPECT_NEAR(known, 1e6, 1e4);
  warm.begin_run(view);
  warm.finished({.rows = kRows, .started = at(100), .ended = at(400)});
  EXPECT_EQ(rate(), known);
  warm.finished({.rows = kRows, .started = at(110), .ended = at(430)});
  EXPECT_NEAR(rate(), known, 1e4) << "30 ms after the one before";
  warm.finished({.rows = kRows, .started = at(410), .ended = at(730)});
  const double slower = rate();
  EXPECT_LT(slower, 0.6 * known) << "300 ms after it";

  loads[0].lanes = 1;
  warm.begin_run(view);
  warm.finished({.rows = kRows, .started = at(100), .ended = at(130)});
  EXPECT_GT(rate(), slower) << "a single lane overlaps nothing: all are measured";
}

// --- what is kept ---

TEST_F(AdaptiveFiles, LearnedRatesServeTheNextProcess) {
  const std::filesystem::path file = folder_ / "state" / "rates.json";
  {
    AdaptiveScheduler scheduler(
        AdaptiveConfig{.devices = kTwenty, .model = "m", .rates_file = file});
    (void)efficiency(scheduler, 1);
    EXPECT_TRUE(std::filesystem::exists(file)) << "kept when the run ends, not only at exit";
  }
  AdaptiveScheduler warm(AdaptiveConfig{.devices = kTwenty, .model = "m", .rates_file = file});
  EXPECT_NEAR(warm.knowledge()[0].rows_per_second, 2e6, 4e4);
  EXPECT_GE(efficiency(warm, 0.2), 0.95) << "no time to learn in so short a run";
  const AdaptiveScheduler other(
      AdaptiveConfig{.devices = kTwenty, .model = "another", .rates_file = file});
  EXPECT_FALSE(other.knowledge()[0].known);
}

TEST_F(AdaptiveFiles, ABrokenFileIsAWarningAndLearnedAnew) {
  const std::filesystem::path file = folder_ / "rates.json";
  std::ofstream(file) << "{\"version\": 1, \"rates\": [{]}";
  const LogCapture log;
  AdaptiveScheduler scheduler(AdaptiveConfig{.devices = kTwenty, .rates_file = file});
  EXPECT_THAT(log.lines(), ::testing::Contains(HasSubstr("learned anew")));
  (void)efficiency(scheduler, 0.1);
  EXPECT_FALSE(load_rates(file).empty());
}

TEST(Rates, SurviveARoundTripUpToTheCeiling) {
  LearnedRates rates;
  for (std::size_t k = 0; k < kMaxLearnedRates + 3; ++k) {
    rates[{format("model {}", k), "cuda:0"}] = {1e-3 * static_cast<double>(k), 1e-6, k};
  }
  const LearnedRates read = parse_rates(rates_text(rates), "test");
  EXPECT_EQ(read.size(), kMaxLearnedRates);
  for (const auto& [key, rate] : read) EXPECT_EQ(rate, rates.at(key));
  for (
      const char* wrong :
      {"[]", "{\"version\":2,\"rates\":[]}", "{\"version\":1,\"rates\":[{}]}",
       R"({"version":1,"rates":[{"model":"m","device":"d","latency_s":-1,"row_s":1,"ceiling_rows":0}]})",
       R"({"version":1,"rates":[{"model":"m","device":"d","latency_s":0,"row_s":0,"ceiling_rows":0}]})",
       R"({"version":1,"rates":[{"model":"m","device":"d","latency_s":0,"row_s":1,"ceiling_rows":-1}]})"}) {
    EXPECT_THAT(error_of([&] { (void)parse_rates(wrong, "test"); }), HasSubstr("invalid_argument"))
        << wrong;
  }
}

TEST(Rates, AFitTellsLatencyFromRate) {
  RateModel rate;
  rate.observe(1000, 0.011);
  EXPECT_TRUE(rate.known());
  EXPECT_FALSE(rate.separated());
  rate.observe(4000, 0.014);
  EXPECT_NEAR(rate.latency_s(), 0.01, 1e-9);
  EXPECT_NEAR(rate.row_s(), 1e-6, 1e-12);
  for (int k = 0; k < 50; ++k) rate.observe(4000, 0.018);
  EXPECT_NEAR(rate.seconds(4000), 0.018, 1e-6) << "follows a device that slows down";
}

// Sub-batches that overlap can end at the same moment: that says nothing about the latency.
TEST(Rates, EndsTogetherDoNotHideTheLatency) {
  RateModel rate;
  for (int k = 0; k < 60; ++k) {
    const std::size_t rows = k % 3 == 0 ? 4000 : 1000;
    const double busy = 0.001 + 4e-6 * static_cast<double>(rows);
    const double late = k % 2 == 0 ? busy : -busy + 1e-6;  // every second one with the next
    rate.observe(rows, busy + late, 3 * busy);
  }
  EXPECT_GT(rate.latency_s(), 0.0005);
  EXPECT_LT(rate.latency_s(), 0.01);
}

TEST(EqualFinish, IsTheBestSplit) {
  Random random(3, "finish");
  for (int round = 0; round < 200; ++round) {
    std::vector<Taker> takers;
    for (std::uint64_t k = 0; k < 1 + random.below(5); ++k) {
      takers.push_back({random.uniform(), 1e-3 + static_cast<double>(random.uniform())});
    }
    const double rows = 0.1 + 20 * static_cast<double>(random.uniform());
    const EqualFinish finish = equal_finish(takers, rows);
    double sum = 0;
    for (std::size_t k = 0; k < takers.size(); ++k) {
      sum += finish.rows[k];
      const double end = takers[k].ready_s + takers[k].row_s * finish.rows[k];
      if (finish.rows[k] > 0) {
        EXPECT_NEAR(end, finish.time_s, 1e-9);
      } else {
        EXPECT_GE(takers[k].ready_s, finish.time_s - 1e-9);
      }
    }
    EXPECT_NEAR(sum, rows, 1e-6);
  }
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
