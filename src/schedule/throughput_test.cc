#include <harmonics/schedule/throughput.h>

#include <gtest/gtest.h>

namespace harmonics::inline in_schedule {
namespace {

using std::chrono::milliseconds;

TEST(Throughput, NothingBeforeTheSecondStep) {
  ThroughputMeter meter(1);
  EXPECT_FALSE(meter.rates());
  meter.add(milliseconds(100), 32, milliseconds(90));
  EXPECT_FALSE(meter.rates());
}

TEST(Throughput, SharesAreOfTheTimeSinceTheFirstStep) {
  ThroughputMeter meter(1);
  // What was waited before the first step was no training.
  meter.add(milliseconds(1000), 32, milliseconds(900));
  meter.add(milliseconds(1500), 32, milliseconds(1000));
  meter.add(milliseconds(2000), 16, milliseconds(1150));
  const auto rates = meter.rates();
  ASSERT_TRUE(rates);
  EXPECT_DOUBLE_EQ(rates->samples_per_second, 48);
  EXPECT_DOUBLE_EQ(*rates->waiting, 0.25);
  EXPECT_DOUBLE_EQ(*rates->busy, 0.75);
  EXPECT_FALSE(rates->micro_batch_s);
}

TEST(Throughput, WithoutACountOfWaitingThereIsOnlyARate) {
  ThroughputMeter meter(1);
  for (int step = 0; step < 100; ++step) meter.add(milliseconds(10 * step), 1, std::nullopt);
  const auto rates = meter.rates();
  ASSERT_TRUE(rates);
  EXPECT_DOUBLE_EQ(rates->samples_per_second, 100);
  EXPECT_FALSE(rates->busy);
  EXPECT_FALSE(rates->waiting);
  EXPECT_FALSE(rates->micro_batch_s);
}

TEST(Throughput, OldStepsAreForgotten) {
  ThroughputMeter meter(1);
  Nanoseconds now{};
  Nanoseconds waited{};
  for (int step = 0; step < 10'000; ++step) meter.add(now += milliseconds(5), 10, waited);
  EXPECT_NEAR(meter.rates()->samples_per_second, 2000, 1);
  EXPECT_DOUBLE_EQ(*meter.rates()->busy, 1);
  // Now half as fast, and waiting for half of it.
  for (int step = 0; step < 2000; ++step) {
    meter.add(now += milliseconds(10), 10, waited += milliseconds(5));
  }
  EXPECT_NEAR(meter.rates()->samples_per_second, 1000, 1);
  EXPECT_NEAR(*meter.rates()->busy, 0.5, 1e-9);
  // A step that takes longer than the window counts for what it took.
  meter.add(now += std::chrono::seconds(20), 10, waited);
  EXPECT_LT(meter.rates()->samples_per_second, 500);
}

TEST(Throughput, AMicroBatchIsTheMedianOfBusyTime) {
  ThroughputMeter meter(4);
  Nanoseconds now{};
  Nanoseconds waited{};
  // Warming up is slow, and every fifth step saves a checkpoint.
  for (std::size_t step = 0; step < kWarmUpSteps; ++step) {
    meter.add(now += milliseconds(500), 8, waited);
  }
  for (std::size_t step = 0; step < kMeasuredSteps; ++step) {
    EXPECT_FALSE(meter.rates() && meter.rates()->micro_batch_s);
    now += milliseconds(step % 5 == 0 ? 90 : 20);
    meter.add(now, 8, waited += milliseconds(12));
  }
  ASSERT_TRUE(meter.rates()->micro_batch_s);
  EXPECT_DOUBLE_EQ(*meter.rates()->micro_batch_s, 0.002);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
