#include "share_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace harmonics::inline in_schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(SharesByRates, AreInInverseProportionToSeconds) {
  EXPECT_THAT(shares_by_rates(256, std::vector{1.0, 3.0}), ElementsAre(192, 64));
  EXPECT_THAT(shares_by_rates(100, std::vector{1.0, 1.0, 0.0}), ElementsAre(50, 50, 0));
  EXPECT_THAT(shares_by_rates(7, std::vector{1.0, 1.0}), ElementsAre(4, 3));
  // A row at least, however slow.
  EXPECT_THAT(shares_by_rates(64, std::vector{1.0, 1e9}), ElementsAre(63, 1));
}

TEST(SharesByRates, DealEveryRow) {
  for (const std::int64_t rows : {10, 64, 257, 1000}) {
    const ShareWeights shares = shares_by_rates(rows, std::vector{0.3, 0.7, 1.1, 2.9});
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0L), rows);
  }
}

TEST(ShareRates, DealAnewOnceEnoughIsKnown) {
  ShareRates rates(2);
  for (std::size_t i = 0; i + 1 < kLeastRatedSteps; ++i) {
    rates.note(std::vector{0.001, 0.003});
    EXPECT_EQ(rates.better(256, {128, 128}), std::nullopt);
  }
  rates.note(std::vector{0.001, 0.003});
  EXPECT_THAT(rates.better(256, {128, 128}), Optional(ElementsAre(192, 64)));
  // And then only when enough is known of the new ones.
  rates.note(std::vector{0.001, 0.001});
  EXPECT_EQ(rates.better(256, {192, 64}), std::nullopt);
}

TEST(ShareRates, StayWhereLittleWouldBeGained) {
  ShareRates rates(2);
  for (int i = 0; i < 20; ++i) {
    rates.note(std::vector{0.00100, 0.00103});
    EXPECT_EQ(rates.better(256, {128, 128}), std::nullopt);
  }
}

TEST(ShareRates, OneSlowStepIsNoDrift) {
  ShareRates rates(2);
  for (int i = 0; i < 20; ++i) {
    rates.note(std::vector{0.001, i % 5 == 4 ? 0.02 : 0.001});
    EXPECT_EQ(rates.better(256, {128, 128}), std::nullopt);
  }
}

TEST(ShareRates, FollowADrift) {
  ShareRates rates(2);
  ShareWeights shares{128, 128};
  int changes = 0;
  for (int i = 0; i < 60; ++i) {
    const double second = i < 20 ? 0.001 : i < 40 ? 0.002 : 0.0005;
    rates.note(std::vector{0.001, second});
    if (const auto better = rates.better(256, shares)) {
      shares = *better;
      ++changes;
    }
  }
  EXPECT_GE(changes, 2);
  EXPECT_THAT(shares, ElementsAre(85, 171));
}

TEST(ShareRates, OneThatIsGoneGetsNothing) {
  ShareRates rates(3);
  for (std::size_t i = 0; i < kLeastRatedSteps; ++i) rates.note(std::vector{0.001, 0.0, 0.003});
  EXPECT_THAT(rates.better(256, {128, 0, 128}), Optional(ElementsAre(192, 0, 64)));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
