#include "unit_times.h"

#include <gtest/gtest.h>

#include <numeric>

#include <harmonics/base/error.h>

namespace harmonics::inline in_server {
namespace {

constexpr double kSamples = 8;

/// Four units, the second with three times the work of the others.
std::vector<Unit> four_units() {
  std::vector<Unit> units(4);
  for (std::size_t i = 0; i < units.size(); ++i) {
    units[i].first_layer = units[i].last_layer = i;
    units[i].flops = i == 1 ? 30e6 : 10e6;
  }
  return units;
}

StagePlace worker(bool with_device = false) {
  StagePlace place;
  place.place.spec.name = "w";
  if (with_device) place.place.devices = first_devices(1);
  return place;
}

StagePlace trained(std::size_t first, std::size_t last, double seconds) {
  StagePlace place = worker();
  place.trained = {{first, last, seconds}};
  return place;
}

double total(const std::vector<double>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0);
}

TEST(UnitTimes, EstimatesGoByOperationsAndKindOfWorker) {
  const auto times = unit_times(four_units(), {worker(), worker(true)}, kSamples);
  EXPECT_NEAR(times[0][1] / times[0][0], 3, 0.01);
  EXPECT_NEAR(times[0][0] / times[1][0], kEstimatedGpuFlops / kEstimatedCpuFlops, 1e-6);
}

TEST(UnitTimes, AProfileIsTakenAsItIs) {
  StagePlace place = worker();
  place.measured = MeasuredWorker{{1, 2, 3, 4}, 0};
  place.trained = {{1, 4, 100}};
  EXPECT_EQ(unit_times(four_units(), {place}, kSamples)[0], place.measured->unit_s);
  place.measured->unit_s.pop_back();
  EXPECT_THROW(static_cast<void>(unit_times(four_units(), {place}, kSamples)), Error);
}

TEST(UnitTimes, WhatWasTrainedScalesTheEstimate) {
  const auto plain = unit_times(four_units(), {worker()}, kSamples)[0];
  // Its first two units took ten times as long as estimated, and so will the others.
  const auto times =
      unit_times(four_units(), {trained(1, 2, 10 * (plain[0] + plain[1]))}, kSamples)[0];
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(times[i] / plain[i], 10, 0.5) << i;
}

TEST(UnitTimes, EachTrainedPartCountsForItsOwnUnitsTheNewestFirst) {
  const auto plain = unit_times(four_units(), {worker()}, kSamples)[0];
  StagePlace place = worker();
  place.trained = {{1, 1, 4 * plain[0]}, {3, 3, 100 * plain[2]}, {3, 4, 9 * (plain[2] + plain[3])}};
  const auto times = unit_times(four_units(), {place}, kSamples)[0];
  EXPECT_NEAR(times[0] / plain[0], 4, 0.3);
  EXPECT_NEAR(times[2] / plain[2], 9, 0.5);
  EXPECT_NEAR(times[3] / plain[3], 9, 0.5);
  EXPECT_GT(times[1] / plain[1], 4) << "as all parts together";
}

TEST(UnitTimes, WhoWasNotMeasuredIsReckonedLikeTheOthersOfItsKind) {
  const auto plain = unit_times(four_units(), {worker(), worker(true)}, kSamples);
  const auto times =
      unit_times(four_units(),
                 {trained(1, 4, 40 * total(plain[0])),
                  trained(2, 3, 10 * (plain[0][1] + plain[0][2])), worker(), worker(true)},
                 kSamples);
  EXPECT_NEAR(total(times[2]) / total(plain[0]), 20, 1.5) << "the middle of 10 and 40";
  EXPECT_EQ(times[3], plain[1]) << "no GPU was measured";
}

TEST(UnitTimes, NearlyEqualWorkersAreEqual) {
  const auto plain = unit_times(four_units(), {worker()}, kSamples)[0];
  const auto times = unit_times(
      four_units(), {trained(1, 4, 4.60 * total(plain)), trained(1, 4, 4.61 * total(plain))},
      kSamples);
  EXPECT_EQ(times[0], times[1]);
}

TEST(UnitTimes, APartOfAnotherGraphDoesNoHarm) {
  const auto times = unit_times(four_units(), {trained(3, 9, 1.0)}, kSamples)[0];
  EXPECT_EQ(times.size(), 4U);
  EXPECT_GT(times[3], 0);
}

}  // namespace
}  // namespace harmonics::inline in_server
