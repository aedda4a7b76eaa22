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
