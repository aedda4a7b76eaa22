// The cluster under faults. HARMONICS_SIM_SEEDS=20000 runs that many seeds, HARMONICS_SIM_SEED=n
// one.
#include <cstdlib>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include <campaign_testing.h>

#include "simulation.h"

namespace harmonics::inline in_sim {
namespace {

TEST(Simulation, KeepsItsPromises) {
  const std::uint64_t first = number_from_environment("HARMONICS_SIM_SEED", 0);
  const bool one = std::getenv("HARMONICS_SIM_SEED") != nullptr;
  const std::uint64_t seeds =
      one ? 1 : number_from_environment("HARMONICS_SIM_SEEDS", campaign(4000, 20'000));
  SimulationReport total;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    try {
      const SimulationReport report = simulate(seed);
      total.events += report.events;
      total.faults += report.faults;
      total.tasks += report.tasks;
      total.attempts += report.attempts;
    } catch (const Error& error) {
      FAIL() << error.what() << "\nagain with HARMONICS_SIM_SEED=" << seed;
    }
  }
  std::printf("%llu seeds: %llu events, %llu faults, %llu tasks, %llu processes\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(total.events),
              static_cast<unsigned long long>(total.faults),
              static_cast<unsigned long long>(total.tasks),
              static_cast<unsigned long long>(total.attempts));
  EXPECT_GT(total.faults, seeds * 5);
  EXPECT_GT(total.attempts, seeds * 5);
}

TEST(Simulation, TheSameSeedIsTheSameRun) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const SimulationReport first = simulate(seed);
    const SimulationReport second = simulate(seed);
    EXPECT_EQ(first.events, second.events);
    EXPECT_EQ(first.ended, second.ended);
  }
}

class Planted : public testing::TestWithParam<Plant> {};

TEST_P(Planted, IsCaughtWithItsSeed) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    try {
      simulate(seed, GetParam());
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("seed " + std::to_string(seed)), std::string::npos) << text;
      EXPECT_NE(text.find("promise broken"), std::string::npos) << text;
      std::printf("caught: %s\n", text.c_str());
      EXPECT_THROW(simulate(seed, GetParam()), Error) << "the seed brings it back";
      return;
    }
  }
  FAIL() << "the bug was not noticed";
}

INSTANTIATE_TEST_SUITE_P(All, Planted,
                         testing::Values(Plant::kImpatientServer, Plant::kActBeforeStoring,
                                         Plant::kDeafSupervisor, Plant::kEarlyDrop,
                                         Plant::kLongHold, Plant::kUncheckedLead));

}  // namespace
}  // namespace harmonics::inline in_sim
