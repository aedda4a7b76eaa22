#include "device_holders.h"

#include <gtest/gtest.h>

namespace harmonics::inline in_worker {
namespace {

RunRecord on_devices(const std::string& attempt, const std::string& devices) {
  RunRecord run;
  run.attempt = attempt;
  run.environment = {{"HARMONICS_DEVICES", devices}};
  return run;
}

TEST(DeviceHolders, ADeviceIsFreeAgainWhenItsAttemptIsGone) {
  DeviceHolders holders;
  holders.add(on_devices("17.1", "0,1"));
  EXPECT_EQ(holders.before(on_devices("18.1", "1")), "17.1");
  EXPECT_EQ(holders.before(on_devices("18.1", "2")), "");
  holders.add(on_devices("18.1", "2"));
  holders.remove("17.1");
  EXPECT_EQ(holders.before(on_devices("19.1", "0,1")), "");
  EXPECT_EQ(holders.before(on_devices("19.1", "0,2")), "18.1");
}

TEST(DeviceHolders, SharesOfADeviceAddUpToTheWhole) {
  const auto share = [](const std::string& attempt, const std::string& part) {
    RunRecord run = on_devices(attempt, "0");
    run.environment.emplace_back("HARMONICS_GPU_SHARE", part);
    return run;
  };
  DeviceHolders holders;
  holders.add(share("1.1", "0.5"));
  EXPECT_EQ(holders.before(share("2.1", "0.5")), "");
  EXPECT_EQ(holders.before(share("2.1", "0.5001")), "1.1");
  EXPECT_EQ(holders.before(on_devices("2.1", "0")), "1.1") << "all of it";
  holders.add(share("2.1", "0.5"));
  EXPECT_EQ(holders.before(share("3.1", "0.0001")), "1.1");
  holders.remove("1.1");
  EXPECT_EQ(holders.before(share("3.1", "0.0001")), "");
}

TEST(DeviceHolders, AnEarlierAttemptOfTheTaskComesFirst) {
  DeviceHolders holders;
  holders.add(on_devices("7.1", ""));
  holders.add(on_devices("70.1", ""));
  EXPECT_EQ(holders.before(on_devices("7.2", "")), "7.1");
  EXPECT_EQ(holders.before(on_devices("7.1", "")), "") << "itself is no hindrance";
  EXPECT_EQ(holders.before(on_devices("8.1", "")), "");
  holders.remove("7.1");
  EXPECT_EQ(holders.before(on_devices("7.2", "")), "");
}

}  // namespace
}  // namespace harmonics::inline in_worker
